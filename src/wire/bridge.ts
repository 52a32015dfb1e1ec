import { violation } from "./frame.ts";

/**
 * Frames of the bridge: many connections to the agent's socket over one pair of pipes, where the SSH server forwards no
 * streams. They have no credit of their own; the wire protocol inside of a connection bounds what it has on the way.
 */

/**
 * First bytes of either direction: magic, then the version. What a login shell's start-up files print stands before it,
 * so it has control characters that a terminal would change and no text has in this order.
 */
export const BRIDGE_MAGIC = Buffer.from([0x50, 0x53, 0x52, 0x42, 0x0d, 0x0a, 0x1a, 1]);

/** Bytes of one data frame. */
export const MAX_BRIDGE_DATA_BYTES = 64 * 1024;

export enum BridgeFrameType {
  /** The broker's end wants a connection; numbers rise by one. */
  Open = 1,
  /** The host's end has it. */
  Opened = 2,
  Data = 3,
  /** The sender writes nothing more. */
  End = 4,
  /** The sender neither reads nor writes any more; instead of Opened: nobody listens at the socket. */
  Close = 5,
}

export type BridgeMark = Exclude<BridgeFrameType, BridgeFrameType.Data>;

/** u32 payload length, u8 type, u32 connection. */
const HEADER_BYTES = 9;

export function encodeBridgeHeader(type: BridgeFrameType, connection: number, length: number): Buffer {
  const header = Buffer.allocUnsafe(HEADER_BYTES);
  header.writeUInt32BE(length, 0);
  header[4] = type;
  header.writeUInt32BE(connection, 5);
  return header;
}

export interface BridgeFrameHandler {
  /** The other end has begun to speak. */
  magic(): void;
  mark(type: BridgeMark, connection: number): void;
  /** Called for each part of a data frame that has arrived. */
  data(connection: number, chunk: Buffer): void;
}

/** Cuts a byte stream into frames. Holds no more than a header. */
export class BridgeDecoder {
  readonly #handler: BridgeFrameHandler;
  readonly #onNoise: ((bytes: Buffer) => void) | undefined;
  #magicSeen = 0;
  readonly #header = Buffer.allocUnsafe(HEADER_BYTES);
  #headerSeen = 0;
  /** Bytes of the current data frame that are still to come. */
  #remaining = 0;

  /** @param onNoise gets what stands before the magic; without it that is a violation */
  constructor(handler: BridgeFrameHandler, onNoise?: (bytes: Buffer) => void) {
    this.#handler = handler;
    this.#onNoise = onNoise;
  }

  /** @throws RuntimeError wire-violation on the first byte that cannot be protocol; the decoder is unusable then */
  push(chunk: Buffer): void {
    let at = this.#magicSeen < BRIDGE_MAGIC.length ? this.#readMagic(chunk) : 0;
    while (at < chunk.length) at = this.#remaining > 0 ? this.#readData(chunk, at) : this.#readHeader(chunk, at);
  }

  #readMagic(chunk: Buffer): number {
    let at = 0;
    while (this.#magicSeen < BRIDGE_MAGIC.length && at < chunk.length) {
      if (chunk[at] === BRIDGE_MAGIC[this.#magicSeen]) this.#magicSeen += 1;
      else if (this.#onNoise === undefined)
        throw violation("the bridge's other end does not begin with its magic bytes");
      // The magic's first byte is in it only once, so nothing that was taken for it can hold its beginning.
      else this.#magicSeen = chunk[at] === BRIDGE_MAGIC[0] ? 1 : 0;
      at += 1;
    }
    const noise = this.#magicSeen < BRIDGE_MAGIC.length ? chunk : chunk.subarray(0, at);
    this.#onNoise?.(noise);
    if (this.#magicSeen === BRIDGE_MAGIC.length) this.#handler.magic();
    return at;
  }

  #readHeader(chunk: Buffer, from: number): number {
    const taken = Math.min(HEADER_BYTES - this.#headerSeen, chunk.length - from);
    chunk.copy(this.#header, this.#headerSeen, from, from + taken);
    this.#headerSeen += taken;
    if (this.#headerSeen === HEADER_BYTES) {
      this.#headerSeen = 0;
      this.#frame(this.#header.readUInt32BE(0), this.#header[4]!, this.#header.readUInt32BE(5));
    }
    return from + taken;
  }

  #frame(length: number, type: number, connection: number): void {
    switch (type) {
      case BridgeFrameType.Data:
        if (length === 0 || length > MAX_BRIDGE_DATA_BYTES)
          throw violation(`a bridged data frame claims ${length} bytes`);
        this.#remaining = length;
        return;
      case BridgeFrameType.Open:
      case BridgeFrameType.Opened:
      case BridgeFrameType.End:
      case BridgeFrameType.Close:
        if (length !== 0) throw violation(`a bridged ${BridgeFrameType[type]} frame claims ${length} bytes`);
        this.#handler.mark(type, connection);
        return;
      default:
        throw violation(`unknown type ${type} of a bridged frame`);
    }
  }

  #readData(chunk: Buffer, from: number): number {
    const end = Math.min(chunk.length, from + this.#remaining);
    this.#remaining -= end - from;
    this.#handler.data(this.#header.readUInt32BE(5), chunk.subarray(from, end));
    return end;
  }
}

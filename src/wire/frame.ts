import { RuntimeError } from "./errors.ts";
import { MAX_DATA_BYTES } from "./limits.ts";

/**
 * First bytes of either direction: magic, then the wire version. The control characters catch a channel that passes
 * through a terminal or a banner that passes for protocol, as PNG's signature does.
 */
export const PREAMBLE = Buffer.from([0x50, 0x53, 0x52, 0x57, 0x0d, 0x0a, 0x1a, 1]);

/**
 * What may stand before the preamble on a client's side: magic, then a name. Connections that begin with the same name go
 * over the same link, so that what is sent over them shares one window. The broker writes it, for it knows the links.
 */
const LINK_MAGIC = Buffer.from("PSRL");
export const LINK_NAME_BYTES = 12;

/** @param name of LINK_NAME_BYTES */
export function encodeLink(name: Buffer): Buffer {
  return Buffer.concat([LINK_MAGIC, name]);
}

/** Frame types. Below 16: JSON payloads; from 16 on: binary payloads about one stream. */
export enum FrameType {
  Request = 1,
  Response = 2,
  Progress = 3,
  Need = 4,
  Supply = 5,
  Event = 6,
  EventAcknowledge = 7,
  Control = 8,
  ControlAcknowledge = 9,
  Fatal = 10,
  Data = 16,
  Acknowledge = 17,
  End = 18,
  Refuse = 19,
}

export type JsonFrameType = Exclude<FrameType, FrameType.Data | MarkFrameType>;
export type MarkFrameType = FrameType.Acknowledge | FrameType.End | FrameType.Refuse;

/** The streams of one operation. `upload` carries what the host asked for with a Need frame. */
export enum StreamId {
  Stdin = 0,
  Stdout = 1,
  Stderr = 2,
  Upload = 3,
}

/** Makes a message of a frame's JSON value, or throws with the place of what is wrong in its message. */
export type FrameCheck = (value: unknown) => unknown;

/** The JSON frames that one side accepts, by type; the binary ones go both ways. */
export type FrameChecks = Partial<Record<JsonFrameType, FrameCheck>>;

export interface WireSide<Checks extends FrameChecks = FrameChecks> {
  accepts: Checks;
}

/** The frames behind a table of checks, as a union that a switch over `type` takes apart. */
export type FramesOf<Checks extends FrameChecks> = {
  [T in keyof Checks & JsonFrameType]: {
    type: T;
    value: Checks[T] extends FrameCheck ? ReturnType<Checks[T]> : never;
  };
}[keyof Checks & JsonFrameType];

const KIB = 1024;

/** Longest payload of each JSON frame, in bytes. */
const MAX_JSON_BYTES: Record<JsonFrameType, number> = {
  [FrameType.Request]: 8 * KIB * KIB,
  [FrameType.Response]: 1 * KIB * KIB,
  [FrameType.Progress]: 4 * KIB,
  [FrameType.Need]: 256 * KIB,
  [FrameType.Supply]: 8 * KIB * KIB,
  [FrameType.Event]: 64 * KIB,
  [FrameType.EventAcknowledge]: 64,
  [FrameType.Control]: 4 * KIB,
  [FrameType.ControlAcknowledge]: 64,
  [FrameType.Fatal]: 64 * KIB,
};

/** u32 payload length, u8 type. */
const HEADER_BYTES = 5;
/** u8 stream, u64 offset. */
const STREAM_HEADER_BYTES = 9;
const MAX_OFFSET_HIGH = 0x1f_ffff;
const MIN_JSON_BUFFER_BYTES = 4 * KIB;
const NOTHING = Buffer.alloc(0);

export interface FrameHandler {
  /** Called at most once, before anything else; without it a connection that names its link is a violation. */
  link?(name: string): void;
  json(type: JsonFrameType, value: unknown): void;
  /** Called once for each part of a data frame that has arrived; `chunk` is the caller's memory, valid for good. */
  data(stream: StreamId, offset: number, chunk: Buffer): void;
  mark(type: MarkFrameType, stream: StreamId, offset: number): void;
}

/** @throws RuntimeError wire-violation when the payload is longer than the receiver would accept. */
export function encodeJsonFrame(type: JsonFrameType, value: unknown): Buffer {
  const text = JSON.stringify(value);
  const length = Buffer.byteLength(text);
  if (length > MAX_JSON_BYTES[type]) {
    throw violation(`a ${FrameType[type]} frame of ${length} bytes is longer than the ${MAX_JSON_BYTES[type]} allowed`);
  }
  const frame = Buffer.allocUnsafe(HEADER_BYTES + length);
  frame.writeUInt32BE(length, 0);
  frame[4] = type;
  frame.write(text, HEADER_BYTES);
  return frame;
}

/** The header of a data frame; the data follow it on the wire as they are, so that they are never copied here. */
export function encodeDataHeader(stream: StreamId, offset: number, length: number): Buffer {
  return encodeStreamHeader(FrameType.Data, stream, offset, STREAM_HEADER_BYTES + length);
}

export function encodeMarkFrame(type: MarkFrameType, stream: StreamId, offset: number): Buffer {
  return encodeStreamHeader(type, stream, offset, STREAM_HEADER_BYTES);
}

function encodeStreamHeader(type: FrameType, stream: StreamId, offset: number, length: number): Buffer {
  const header = Buffer.allocUnsafe(HEADER_BYTES + STREAM_HEADER_BYTES);
  header.writeUInt32BE(length, 0);
  header[4] = type;
  header[5] = stream;
  header.writeUInt32BE(Math.floor(offset / 2 ** 32), 6);
  header.writeUInt32BE(offset % 2 ** 32, 10);
  return header;
}

export function violation(text: string): RuntimeError {
  return new RuntimeError(
    "wire-violation",
    `Wire protocol error: ${text}`,
    "Use the same version of paseo-ssh-runtime on both sides",
  );
}

/**
 * Cuts a byte stream into frames. Holds at most one JSON payload, never data: parts of a data frame are handed on as
 * they come.
 */
export class FrameDecoder {
  readonly #handler: FrameHandler;
  #preambleSeen = 0;
  /** What has come of a link's name, once its magic has. */
  #linkName: Buffer | undefined;
  #linkNameSeen = 0;
  #stopped = false;
  readonly #header = Buffer.allocUnsafe(HEADER_BYTES + STREAM_HEADER_BYTES);
  #headerSeen = 0;
  #headerWanted = HEADER_BYTES;
  #type: FrameType = FrameType.Request;
  /** Payload bytes of the current frame that are still to come. */
  #remaining = 0;
  /** The JSON payload that is being collected; grows with what has really come, never with what is claimed. */
  #json: Buffer = NOTHING;
  #jsonSize = 0;
  #stream: StreamId = StreamId.Stdin;
  #offset = 0;

  constructor(handler: FrameHandler) {
    this.#handler = handler;
  }

  /** Whether the other side is in the middle of its preamble, or of its link's name. */
  get inPreamble(): boolean {
    const inName = this.#linkName !== undefined && this.#linkNameSeen < LINK_NAME_BYTES;
    return inName || (this.#preambleSeen > 0 && this.#preambleSeen < PREAMBLE.length);
  }

  /** Takes no further frame: whoever calls this from within a frame gets what follows it from `push`. */
  stop(): void {
    this.#stopped = true;
  }

  /**
   * @returns how many bytes were taken: all, unless the decoder was stopped
   * @throws RuntimeError wire-violation on the first byte that cannot be protocol; the decoder is unusable afterwards.
   */
  push(chunk: Buffer): number {
    let at = this.#preamble(chunk);
    while (at < chunk.length && !this.#stopped) {
      if (this.#headerSeen < this.#headerWanted) {
        at = this.#readHeader(chunk, at);
      } else {
        at = this.#readPayload(chunk, at);
      }
    }
    return at;
  }

  #preamble(chunk: Buffer): number {
    let at = 0;
    while (this.#preambleSeen < PREAMBLE.length && at < chunk.length) {
      if (this.#linkName !== undefined && this.#linkNameSeen < LINK_NAME_BYTES) {
        this.#linkName[this.#linkNameSeen] = chunk[at]!;
        this.#linkNameSeen += 1;
        at += 1;
        if (this.#linkNameSeen === LINK_NAME_BYTES) this.#handler.link!(this.#linkName.toString("hex"));
        continue;
      }
      if (this.#beginsLink(chunk[at]!)) {
        this.#linkName = Buffer.alloc(LINK_NAME_BYTES);
        this.#preambleSeen = 0;
        at += 1;
        continue;
      }
      if (chunk[at] !== PREAMBLE[this.#preambleSeen]) {
        throw violation(
          this.#preambleSeen === PREAMBLE.length - 1
            ? `the other side speaks wire version ${chunk[at]}, this side speaks version ${PREAMBLE[this.#preambleSeen]}`
            : "the other side does not begin with the protocol's magic bytes",
        );
      }
      this.#preambleSeen += 1;
      at += 1;
    }
    return at;
  }

  /** The two magics differ in their last byte. */
  #beginsLink(byte: number): boolean {
    const last = LINK_MAGIC.length - 1;
    return (
      this.#preambleSeen === last &&
      byte === LINK_MAGIC[last] &&
      this.#handler.link !== undefined &&
      this.#linkName === undefined
    );
  }

  #readHeader(chunk: Buffer, from: number): number {
    const taken = Math.min(this.#headerWanted - this.#headerSeen, chunk.length - from);
    chunk.copy(this.#header, this.#headerSeen, from, from + taken);
    this.#headerSeen += taken;
    if (this.#headerSeen === this.#headerWanted) {
      if (this.#headerWanted === HEADER_BYTES) this.#frameHeader();
      else this.#streamHeader();
    }
    return from + taken;
  }

  #frameHeader(): void {
    const length = this.#header.readUInt32BE(0);
    const type = this.#header[4] as FrameType;
    this.#type = type;
    switch (type) {
      case FrameType.Data:
        if (length <= STREAM_HEADER_BYTES || length > STREAM_HEADER_BYTES + MAX_DATA_BYTES) {
          throw violation(`a data frame claims ${length} bytes`);
        }
        this.#headerWanted = HEADER_BYTES + STREAM_HEADER_BYTES;
        break;
      case FrameType.Acknowledge:
      case FrameType.End:
      case FrameType.Refuse:
        if (length !== STREAM_HEADER_BYTES) throw violation(`a ${FrameType[type]} frame claims ${length} bytes`);
        this.#headerWanted = HEADER_BYTES + STREAM_HEADER_BYTES;
        break;
      default: {
        const limit = MAX_JSON_BYTES[type];
        if (limit === undefined) throw violation(`unknown frame type ${type}`);
        if (length < 2 || length > limit) throw violation(`a ${FrameType[type]} frame claims ${length} bytes`);
      }
    }
    this.#remaining = length;
  }

  #streamHeader(): void {
    const stream = this.#header[5]!;
    if (stream > StreamId.Upload) throw violation(`unknown stream ${stream}`);
    const high = this.#header.readUInt32BE(6);
    if (high > MAX_OFFSET_HIGH) throw violation("a stream offset is out of range");
    this.#stream = stream;
    this.#offset = high * 2 ** 32 + this.#header.readUInt32BE(10);
    this.#remaining -= STREAM_HEADER_BYTES;
    if (this.#type !== FrameType.Data) {
      this.#nextFrame();
      this.#handler.mark(this.#type as MarkFrameType, this.#stream, this.#offset);
    }
  }

  #readPayload(chunk: Buffer, from: number): number {
    const end = Math.min(chunk.length, from + this.#remaining);
    const part = from === 0 && end === chunk.length ? chunk : chunk.subarray(from, end);
    this.#remaining -= part.length;
    if (this.#type === FrameType.Data) {
      const offset = this.#offset;
      this.#offset += part.length;
      if (this.#remaining === 0) this.#nextFrame();
      this.#handler.data(this.#stream, offset, part);
    } else if (this.#remaining === 0 && this.#jsonSize === 0) {
      this.#finishJson(part);
    } else {
      this.#collectJson(part);
      if (this.#remaining === 0) this.#finishJson(this.#json.subarray(0, this.#jsonSize));
    }
    return end;
  }

  /** Copies, since a list of parts would hold a whole chunk of the socket for each byte of a peer that trickles. */
  #collectJson(part: Buffer): void {
    const size = this.#jsonSize + part.length;
    if (size > this.#json.length) {
      const roomier = Math.max(size, 2 * this.#json.length, MIN_JSON_BUFFER_BYTES);
      const grown = Buffer.allocUnsafeSlow(Math.min(roomier, size + this.#remaining));
      this.#json.copy(grown, 0, 0, this.#jsonSize);
      this.#json = grown;
    }
    part.copy(this.#json, this.#jsonSize);
    this.#jsonSize = size;
  }

  #finishJson(bytes: Buffer): void {
    const type = this.#type as JsonFrameType;
    this.#json = NOTHING;
    this.#jsonSize = 0;
    this.#nextFrame();
    let value: unknown;
    try {
      value = JSON.parse(bytes.toString("utf8"));
    } catch {
      throw violation(`a ${FrameType[type]} frame is not JSON`);
    }
    this.#handler.json(type, value);
  }

  #nextFrame(): void {
    this.#headerSeen = 0;
    this.#headerWanted = HEADER_BYTES;
  }
}

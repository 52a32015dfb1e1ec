/** SSH's data types (RFC 4251, 5), and how an `ssh` in proxy mode frames its messages (OpenSSH's PROTOCOL.mux). */

/** OpenSSH's own limit of a packet (PACKET_MAX_SIZE in packet.h). */
const MAX_FRAME_BYTES = 256 * 1024;

export const concat = (parts: readonly Uint8Array[]): Buffer => Buffer.concat(parts);

export function byte(value: number): Buffer {
  return Buffer.from([value]);
}

export function uint32(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

export function string(content: string | Uint8Array): Buffer {
  const bytes = typeof content === "string" ? Buffer.from(content, "utf8") : content;
  return Buffer.concat([uint32(bytes.length), bytes]);
}

/** Reads one message from its front. Every method throws a RangeError when the message is too short. */
export class Reader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  byte(): number {
    const value = this.#bytes.readUInt8(this.#at);
    this.#at += 1;
    return value;
  }

  uint32(): number {
    const value = this.#bytes.readUInt32BE(this.#at);
    this.#at += 4;
    return value;
  }

  string(): Buffer {
    const length = this.uint32();
    const end = this.#at + length;
    if (end > this.#bytes.length) throw new RangeError("a string that is longer than its message");
    const content = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    return content;
  }
}

/** A message in clear: a string, with one byte of padding length in front. */
export function frame(message: Uint8Array): Buffer {
  return concat([uint32(message.length + 1), byte(0), message]);
}

/** Takes a byte stream apart into messages. */
export class FrameReader {
  #pieces: Buffer[] = [];
  #bytes = 0;

  push(chunk: Buffer): void {
    this.#pieces.push(chunk);
    this.#bytes += chunk.length;
  }

  /**
   * @returns undefined when the next message is not complete yet
   * @throws RangeError when it cannot be one
   */
  next(): Buffer | undefined {
    if (this.#bytes < 4) return undefined;
    const length = this.#front(4).readUInt32BE(0);
    if (length < 2 || length > MAX_FRAME_BYTES) throw new RangeError(`a message of ${length} bytes`);
    const end = 4 + length;
    if (this.#bytes < end) return undefined;
    const front = this.#front(end);
    if (front.length === end) this.#pieces.shift();
    else this.#pieces[0] = front.subarray(end);
    this.#bytes -= end;
    return front.subarray(5, end);
  }

  /** The first piece, made at least this long. */
  #front(bytes: number): Buffer {
    if (this.#pieces[0]!.length < bytes) this.#pieces = [concat(this.#pieces)];
    return this.#pieces[0]!;
  }
}

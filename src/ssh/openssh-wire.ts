/** SSH's data types (RFC 4251, 5). */

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

import { type ErrorCode, RuntimeError } from "../wire/errors.ts";

/**
 * Bytes as text, refusing what the usual decoding replaces by U+FFFD: it would change what the sender wrote.
 *
 * @param subject what the bytes are, as the beginning of a sentence
 * @throws RuntimeError `code` when the bytes are not UTF-8
 */
export function decodeUtf8(bytes: Uint8Array, subject: string, code: ErrorCode): string {
  const received = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const text = received.toString("utf8");
  // A round trip instead of a fatal TextDecoder, whose construction alone costs 0.2 ms of every start.
  if (!Buffer.from(text, "utf8").equals(received)) throw new RuntimeError(code, `${subject} is not valid UTF-8`);
  return text;
}

/** Chunks of text as bytes. A character outside the basic plane is two code units, and a chunk may end between them. */
export class TextToBytes {
  readonly #subject: string;
  readonly #code: ErrorCode;
  #firstHalf = "";

  /** @param subject what the text is, as the beginning of a sentence */
  constructor(subject: string, code: ErrorCode) {
    this.#subject = subject;
    this.#code = code;
  }

  get hasHalfCharacter(): boolean {
    return this.#firstHalf !== "";
  }

  /**
   * @returns the bytes of the chunk, without a half character at its end; that one comes with the next chunk
   * @throws RuntimeError when a half of a character stays without the other
   */
  toBytes(chunk: Uint8Array | string): Uint8Array {
    if (typeof chunk === "string") {
      const text = this.#firstHalf + chunk;
      this.#firstHalf = /[\ud800-\udbff]$/.exec(text)?.[0] ?? "";
      return this.#encode(text.slice(0, text.length - this.#firstHalf.length));
    }
    if (chunk.length > 0 && this.hasHalfCharacter) this.#refuse();
    return chunk;
  }

  #encode(text: string): Uint8Array {
    // With the u flag, a surrogate that belongs to a pair does not match.
    if (/\p{Surrogate}/u.test(text)) this.#refuse();
    return Buffer.from(text, "utf8");
  }

  #refuse(): never {
    throw new RuntimeError(this.#code, `${this.#subject} holds half of a character`);
  }
}

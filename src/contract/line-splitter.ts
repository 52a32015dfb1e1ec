import { type ErrorCode, RuntimeError } from "../wire/errors.ts";

const NEWLINE = 0x0a;

/** Cuts a stream of bytes into lines, and holds back at most one unfinished line of bounded length. */
export class LineSplitter {
  readonly #maxLineBytes: number;
  readonly #code: ErrorCode;
  /** Grows by doubling, so that a line which arrives byte by byte costs no more than one that comes at once. */
  #held = Buffer.alloc(0);
  #heldBytes = 0;

  /** @param maxLineBytes longest line, without its newline */
  constructor(maxLineBytes: number, code: ErrorCode) {
    this.#maxLineBytes = maxLineBytes;
    this.#code = code;
  }

  /** Whether the bytes so far end inside a line. */
  get hasPartialLine(): boolean {
    return this.#heldBytes > 0;
  }

  /**
   * @returns the lines that `chunk` completes, without their newlines; they may share its memory, so use them at once
   * @throws RuntimeError as soon as a line is longer than allowed, also when its newline has not come yet
   */
  *split(chunk: Uint8Array): Generator<Uint8Array> {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      const tail = chunk.subarray(start, end);
      start = end + 1;
      yield this.#heldBytes === 0 ? this.#bounded(tail) : this.#takeWith(tail);
    }
    this.#hold(chunk.subarray(start));
  }

  #takeWith(tail: Uint8Array): Uint8Array {
    this.#hold(tail);
    const line = this.#held.subarray(0, this.#heldBytes);
    this.#held = Buffer.alloc(0);
    this.#heldBytes = 0;
    return line;
  }

  #hold(bytes: Uint8Array): void {
    this.#bounded(bytes);
    const needed = this.#heldBytes + bytes.length;
    if (needed > this.#held.length) {
      const grown = Buffer.allocUnsafe(Math.max(needed, Math.min(2 * this.#held.length, this.#maxLineBytes)));
      grown.set(this.#held.subarray(0, this.#heldBytes));
      this.#held = grown;
    }
    this.#held.set(bytes, this.#heldBytes);
    this.#heldBytes = needed;
  }

  #bounded(bytes: Uint8Array): Uint8Array {
    if (this.#heldBytes + bytes.length <= this.#maxLineBytes) return bytes;
    this.#held = Buffer.alloc(0);
    this.#heldBytes = 0;
    throw new RuntimeError(this.#code, `A message is longer than ${this.#maxLineBytes} bytes`);
  }
}

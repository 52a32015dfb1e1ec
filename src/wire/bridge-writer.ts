import type { Writable } from "node:stream";

/** Frames that nobody waits for are few and short; a peer that provokes more than this misbehaves. Bytes. */
const MAX_UNPACED_BYTES = 1024 * 1024;

/**
 * Gathers what all connections write in one turn of the event loop into one write, and tells each when it may write
 * more: once everything before has been taken.
 */
export class BridgeWriter {
  readonly #output: Writable;
  #pieces: Buffer[] = [];
  #unpacedBytes = 0;
  /** Who waits for the pieces to be taken. */
  #waiting: (() => void)[] = [];
  /** Who waits for what was written last. */
  #written: (() => void)[] = [];
  /** The output has not yet taken what it was given last. */
  #full = false;
  #flush: NodeJS.Immediate | undefined;
  #closed = false;

  constructor(output: Writable) {
    this.#output = output;
    output.on("drain", () => this.#onDrain());
  }

  /** @param sent called when more may be written */
  write(pieces: readonly Buffer[], sent: () => void): void {
    if (this.#closed) {
      sent();
      return;
    }
    this.#waiting.push(sent);
    this.#add(pieces);
  }

  /** @returns false when more waits to be taken than can have come about in an orderly way */
  writeUnpaced(piece: Buffer): boolean {
    this.#unpacedBytes += piece.length;
    this.#add([piece]);
    return this.#unpacedBytes <= MAX_UNPACED_BYTES;
  }

  /** Forgets what was not yet written. */
  close(): void {
    this.#closed = true;
    clearImmediate(this.#flush);
    this.#pieces = [];
    this.#written.push(...this.#waiting);
    this.#waiting = [];
    this.#release();
  }

  #add(pieces: readonly Buffer[]): void {
    if (this.#closed) return;
    this.#pieces.push(...pieces);
    if (!this.#full) this.#flush ??= setImmediate(() => this.#write());
  }

  #write(): void {
    this.#flush = undefined;
    const bytes = this.#pieces.length === 1 ? this.#pieces[0]! : Buffer.concat(this.#pieces);
    this.#pieces = [];
    this.#unpacedBytes = 0;
    this.#written = this.#waiting;
    this.#waiting = [];
    this.#full = !this.#output.write(bytes);
    if (!this.#full) this.#release();
  }

  #onDrain(): void {
    if (this.#closed) return;
    this.#full = false;
    this.#release();
    if (this.#pieces.length > 0) this.#flush ??= setImmediate(() => this.#write());
  }

  #release(): void {
    const written = this.#written;
    this.#written = [];
    for (const sent of written) sent();
  }
}

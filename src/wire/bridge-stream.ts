import { Duplex } from "node:stream";
import { KeptBytes } from "./kept-bytes.ts";

/** Bytes that may wait in each half before whoever feeds it is told to wait. */
const HIGH_WATER_MARK_BYTES = 64 * 1024;

type WriteCallback = (error?: Error | null) => void;

/** What a stream asks of the link that it goes over. */
export interface BridgeSender {
  /** @param sent called when more may be written */
  data(bytes: Buffer, sent: WriteCallback): void;
  end(): void;
  /** @param finished both ends know already that nothing more will be said */
  gone(finished: boolean): void;
  /** More bytes wait to be read here, or less when negative. @returns false when that is more than may wait */
  waits(bytes: number): boolean;
}

/** One connection over a bridge. What arrives faster than it is read waits here: the link is not held up by it. */
export class BridgeStream extends Duplex {
  readonly #sender: BridgeSender;
  readonly #waiting = new KeptBytes();
  #wanted = false;
  #endReceived = false;
  #endSent = false;
  #peerGone = false;

  constructor(sender: BridgeSender) {
    super({ highWaterMark: HIGH_WATER_MARK_BYTES, allowHalfOpen: true });
    this.#sender = sender;
    // A lost link fails all of its streams at once; one that lies idle in a pool has no listener of its own.
    this.on("error", () => {});
    this.on("end", () => this.#destroyWhenDone());
  }

  /** @param tooMuch makes the error when more waits here than may */
  receive(chunk: Buffer, tooMuch: () => Error): void {
    if (this.destroyed || this.#endReceived) return;
    if (this.#wanted && this.#waiting.length === 0) {
      this.#wanted = this.push(chunk);
      return;
    }
    // A small piece would keep all of the memory that it lies in.
    this.#waiting.append(2 * chunk.length < chunk.buffer.byteLength ? Buffer.from(chunk) : chunk);
    if (!this.#sender.waits(chunk.length)) this.destroy(tooMuch());
  }

  receiveEnd(): void {
    if (this.#endReceived) return;
    this.#endReceived = true;
    if (this.#waiting.length === 0) this.push(null);
  }

  /** The other end takes nothing more. What it sent last is still read, as on a closed SSH channel. */
  receiveClose(): void {
    this.#peerGone = true;
    this.receiveEnd();
    this.#destroyWhenDone();
  }

  override _read(): void {
    this.#wanted = true;
    while (this.#wanted && this.#waiting.length > 0) {
      const piece = this.#waiting.from(this.#waiting.start);
      this.#waiting.dropBefore(this.#waiting.start + piece.length);
      this.#sender.waits(-piece.length);
      this.#wanted = this.push(piece);
    }
    if (this.#endReceived && this.#waiting.length === 0) this.push(null);
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, callback: WriteCallback): void {
    if (this.#peerGone) callback();
    else this.#sender.data(chunk, callback);
  }

  override _writev(chunks: { chunk: Buffer }[], callback: WriteCallback): void {
    this._write(Buffer.concat(chunks.map(({ chunk }) => chunk)), "binary", callback);
  }

  override _final(callback: WriteCallback): void {
    this.#endSent = true;
    if (!this.#peerGone) this.#sender.end();
    callback();
  }

  override _destroy(error: Error | null, callback: WriteCallback): void {
    this.#sender.waits(-this.#waiting.length);
    this.#waiting.dropBefore(this.#waiting.end);
    this.#sender.gone(this.#peerGone || (this.#endSent && this.#endReceived));
    callback(error);
  }

  #destroyWhenDone(): void {
    if (this.#peerGone && this.readableEnded) this.destroy();
  }
}

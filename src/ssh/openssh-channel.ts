import { Duplex, Readable } from "node:stream";

/** Bytes that wait in a stream on top of the channel's window. */
const HIGH_WATER_MARK_BYTES = 256 * 1024;
/** Credit is given in steps, so that not every piece of data costs a message. Bytes. */
const CREDIT_STEP_BYTES = 256 * 1024;
/** Bytes that the server may send before it is given credit; as in ssh2. */
export const WINDOW_BYTES = 2 * 1024 * 1024;

type WriteCallback = (error?: Error | null) => void;

/** How a channel sends. */
export interface ChannelWire {
  /** @returns false when the line is full; `wait` then tells when it is not any more */
  data(piece: Buffer): boolean;
  credit(bytes: number): void;
  eof(): void;
  close(): void;
  request(name: string, wantsReply: boolean, content: Buffer): void;
  /** Has `onDrain` called once the line takes more. */
  wait(): void;
  forget(): void;
}

/**
 * A channel of an `ssh` in proxy mode as a Node stream, with the manners of ChannelStream: what the other side sent last
 * is still there to be read when it has closed, and pending writes then succeed. How a command ended is the event "exit",
 * as in ssh2.
 */
export class ProxyChannel extends Duplex {
  /** The server's number of this channel. */
  remoteId = 0;
  readonly stderr: Readable;
  readonly #wire: ChannelWire;
  #answers: ((granted: boolean) => void)[] = [];
  #writable = 0;
  #maxPiece = 0;
  #sending: { rest: Buffer; callback: WriteCallback } | undefined;
  /** What the server may still send. */
  #window = WINDOW_BYTES;
  /** Received and not taken by a reader yet. */
  readonly #unread = { stdout: 0, stderr: 0 };
  /** Taken by readers and not credited yet. */
  #due = 0;
  #lineFull = false;
  #closeSent = false;
  #closeReceived = false;
  #keepsOpen = false;

  constructor(wire: ChannelWire) {
    super({ highWaterMark: HIGH_WATER_MARK_BYTES, allowHalfOpen: true, autoDestroy: false });
    this.#wire = wire;
    this.stderr = new Readable({
      highWaterMark: HIGH_WATER_MARK_BYTES,
      read: () => this.#credit("stderr"),
      destroy: (error, callback) => {
        this.#credit("stderr");
        callback(error);
      },
    });
    // A lost connection fails all of its streams at once; one that lies idle in a pool has no listener of its own.
    for (const stream of [this, this.stderr]) stream.on("error", () => {});
    this.on("end", () => this.#destroyWhenDone());
    this.on("finish", () => this.#destroyWhenDone());
  }

  /** A command's channel is closed by the server, after the exit status. */
  keepOpenForExit(): void {
    this.#keepsOpen = true;
  }

  /** Asks the server for something on this channel. @returns whether it was granted; false when the channel has closed */
  request(name: string, content: Buffer): Promise<boolean> {
    if (this.#closeReceived || this.#closeSent) return Promise.resolve(false);
    return new Promise((resolve) => {
      this.#answers.push(resolve);
      this.#wire.request(name, true, content);
    });
  }

  /** The same, when the answer does not matter. */
  announce(name: string): void {
    this.#wire.request(name, false, Buffer.alloc(0));
  }

  onConfirmation(remoteId: number, window: number, maxPiece: number): void {
    this.remoteId = remoteId;
    this.#writable = window;
    this.#maxPiece = maxPiece;
    this.#pump();
  }

  onCredit(bytes: number): void {
    this.#writable += bytes;
    this.#pump();
  }

  /** @throws Error when the server sends more than it may: this process would have to hold what it likes */
  onData(kind: "stdout" | "stderr", piece: Buffer): void {
    this.#window -= piece.length;
    if (this.#window < 0) throw new Error("the server sends more than it was given credit for");
    this.#unread[kind] += piece.length;
    const sink = kind === "stdout" ? this : this.stderr;
    if (sink.destroyed || sink.push(piece)) this.#credit(kind);
  }

  onEof(): void {
    if (this.readableEnded || this.destroyed) return;
    this.push(null);
    this.stderr.push(null);
  }

  onClose(): void {
    if (this.#closeReceived) return;
    this.#closeReceived = true;
    this.#sendClose();
    this.#wire.forget();
    this.#writeDone();
    this.#answerAll();
    this.onEof();
    this.#destroyWhenDone();
  }

  onAnswer(granted: boolean): void {
    this.#answers.shift()?.(granted);
  }

  /** The line takes more again. */
  onDrain(): void {
    this.#lineFull = false;
    this.#pump();
  }

  override _read(): void {
    this.#credit("stdout");
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, callback: WriteCallback): void {
    if (this.#closeReceived || this.#closeSent) {
      // The peer is gone, and what it sent last may still be unread here: an error would throw that away.
      callback();
      return;
    }
    this.#sending = { rest: chunk, callback };
    this.#pump();
  }

  override _final(callback: WriteCallback): void {
    if (!this.#closeReceived && !this.#closeSent) this.#wire.eof();
    callback();
  }

  override _destroy(error: Error | null, callback: WriteCallback): void {
    this.#sendClose();
    this.#writeDone();
    this.#answerAll();
    if (error === null) this.stderr.push(null);
    else this.stderr.destroy(error);
    callback(error);
  }

  /** Sends what the server's credit and the line allow. */
  #pump(): void {
    while (this.#sending !== undefined && !this.#lineFull) {
      const { rest, callback } = this.#sending;
      if (rest.length === 0) {
        this.#sending = undefined;
        callback();
        continue;
      }
      if (this.#writable === 0) return;
      const size = Math.min(rest.length, this.#writable, this.#maxPiece);
      this.#writable -= size;
      this.#sending.rest = rest.subarray(size);
      if (this.#wire.data(rest.subarray(0, size))) continue;
      this.#lineFull = true;
      this.#wire.wait();
    }
  }

  #credit(kind: "stdout" | "stderr"): void {
    this.#due += this.#unread[kind];
    this.#unread[kind] = 0;
    if (this.#closeReceived || this.#closeSent || this.#due < CREDIT_STEP_BYTES) return;
    this.#window += this.#due;
    this.#wire.credit(this.#due);
    this.#due = 0;
  }

  #sendClose(): void {
    if (this.#closeSent) return;
    this.#closeSent = true;
    this.#wire.close();
  }

  #destroyWhenDone(): void {
    const bothEnded = this.readableEnded && this.writableFinished;
    if ((bothEnded && !this.#keepsOpen) || (this.#closeReceived && this.readableEnded)) this.destroy();
  }

  #answerAll(): void {
    for (const answer of this.#answers.splice(0)) answer(false);
  }

  #writeDone(): void {
    const callback = this.#sending?.callback;
    this.#sending = undefined;
    callback?.();
  }
}

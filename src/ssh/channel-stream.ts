import { Duplex } from "node:stream";
import type { Channel } from "ssh2";
import { returnCredit } from "./channel-window.ts";

/** Bytes that wait in this stream on top of the channel's own window of 2 MiB. */
const HIGH_WATER_MARK_BYTES = 256 * 1024;

type WriteCallback = (error?: Error | null) => void;

/**
 * An ssh2 channel with the manners of a Node stream. A bare channel swallows pending writes when it closes, never
 * reports `destroyed`, and shows a lost connection as an ordinary end of data.
 */
export class ChannelStream extends Duplex {
  readonly #channel: Channel;
  #pendingWrite: WriteCallback | undefined;
  #channelClosed = false;

  /**
   * @param closing who closes the channel once both halves have ended: we do, or the server does. A command's channel is
   * closed by the server, after the exit status.
   */
  constructor(channel: Channel, closing: "ours" | "server") {
    super({ highWaterMark: HIGH_WATER_MARK_BYTES, allowHalfOpen: true, autoDestroy: closing === "ours" });
    this.#channel = channel;
    channel.on("data", (chunk: Buffer) => {
      returnCredit(channel);
      if (!this.push(chunk) && !this.destroyed) channel.pause();
    });
    channel.on("end", () => this.push(null));
    channel.on("error", (error: Error) => this.destroy(error));
    channel.on("close", () => this.#onChannelClose());
    // A lost connection fails all of its streams at once; one that lies idle in a pool has no listener of its own.
    this.on("error", () => {});
    this.on("end", () => this.#destroyWhenDone());
  }

  override _read(): void {
    this.#channel.resume();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, callback: WriteCallback): void {
    if (this.#channelClosed) {
      // The peer is gone, and what it sent last may still be unread here: an error would throw that away.
      callback();
      return;
    }
    this.#pendingWrite = callback;
    this.#channel.write(chunk, () => this.#writeDone());
  }

  override _final(callback: WriteCallback): void {
    if (!this.#channelClosed) this.#channel.end();
    callback();
  }

  override _destroy(error: Error | null, callback: WriteCallback): void {
    if (!this.#channelClosed) {
      // What is still unread has to flow off, or the channel would never come to its end.
      this.#channel.resume();
      this.#channel.destroy();
    }
    this.#writeDone();
    callback(error);
  }

  #onChannelClose(): void {
    this.#channelClosed = true;
    this.#writeDone();
    this.#destroyWhenDone();
  }

  /** With the channel closed and everything read there is nothing left to happen, ended by us or not. */
  #destroyWhenDone(): void {
    if (this.#channelClosed && this.readableEnded) this.destroy();
  }

  #writeDone(): void {
    const callback = this.#pendingWrite;
    this.#pendingWrite = undefined;
    callback?.();
  }
}

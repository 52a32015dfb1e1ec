import type { Duplex } from "node:stream";

/** An agent says no more than its preamble before it is asked something. Bytes. */
const MAX_EARLY_BYTES = 1024;

/**
 * A channel to the agent that nobody uses yet. It is being read all the while: a stream that nobody reads does not tell
 * that it has ended, and a channel to an agent that is gone would be handed out.
 */
export class SpareChannel {
  readonly #channel: Duplex;
  readonly #onGone: () => void;
  readonly #early: Buffer[] = [];
  #earlyBytes = 0;

  /** @param onGone called once, when this channel is of no use any more */
  constructor(channel: Duplex, onGone: () => void) {
    this.#channel = channel;
    this.#onGone = onGone;
    channel.on("data", this.#onData);
    channel.on("end", this.drop);
    channel.on("close", this.drop);
    channel.on("error", this.drop);
  }

  /** Gives the channel away, paused and with everything that it has brought so far still to be read. */
  take(): Duplex {
    this.#forget();
    this.#channel.pause();
    if (this.#earlyBytes > 0) this.#channel.unshift(Buffer.concat(this.#early));
    return this.#channel;
  }

  readonly drop = (): void => {
    this.#forget();
    this.#channel.destroy();
    this.#onGone();
  };

  readonly #onData = (chunk: Buffer): void => {
    this.#early.push(chunk);
    this.#earlyBytes += chunk.length;
    if (this.#earlyBytes > MAX_EARLY_BYTES) this.drop();
  };

  /** Others listen to this channel too, so only what is ours goes. */
  #forget(): void {
    this.#channel.off("data", this.#onData);
    this.#channel.off("end", this.drop);
    this.#channel.off("close", this.drop);
    this.#channel.off("error", this.drop);
  }
}

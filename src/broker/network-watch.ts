import { networkInterfaces } from "node:os";

/** Milliseconds between two looks. */
const LOOK_MS = 1000;
/** A look that comes so much too late, in ms, means that this machine slept: timers stand still then, the clock does not. */
const SLEEP_MS = 3000;

/**
 * Notices that connections may have died in silence: this machine slept (or this process was stopped), or it has other
 * addresses than before. Without it a dead link would be noticed by its silence alone, which takes several keepalive
 * intervals from the moment of waking.
 */
export class NetworkWatch {
  readonly #timer: NodeJS.Timeout;
  #lookedAt = Date.now();
  #addresses = ownAddresses();

  /** @param onChange called after each change */
  constructor(onChange: () => void) {
    this.#timer = setInterval(() => {
      const slept = Date.now() - this.#lookedAt > LOOK_MS + SLEEP_MS;
      this.#lookedAt = Date.now();
      const addresses = ownAddresses();
      const moved = addresses !== this.#addresses;
      this.#addresses = addresses;
      if (slept || moved) onChange();
    }, LOOK_MS);
    this.#timer.unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}

function ownAddresses(): string {
  return Object.values(networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .map(({ address }) => address)
    .sort()
    .join(" ");
}

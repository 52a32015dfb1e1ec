/** In handshakes of the kind that the host has given us before, and at least in ms. */
const HANDSHAKES_PER_ATTEMPT = 5;
const MIN_ATTEMPT_MS = 1000;
/** One handshake may have waited for a link that stood still, and that says nothing about the next one. */
const MAX_GROWTH = 2;

/**
 * How long an attempt to come back to a host may take. A dead link swallows an attempt whole, and when it works again only
 * the next one gets through; so after every second failure an attempt gets twice the time, and a host that has become
 * slow is reached as well.
 */
export class AttemptPatience {
  #handshakeMs: number | undefined;

  /** @param ms from the beginning of an attempt that succeeded to its end */
  handshakeTook(ms: number): void {
    this.#handshakeMs = Math.min(ms, MAX_GROWTH * (this.#handshakeMs ?? ms));
  }

  /**
   * @param failures attempts that have failed since the last one that did not
   * @returns ms; infinite for a host that was never reached
   */
  limitMs(failures: number): number {
    if (this.#handshakeMs === undefined) return Number.POSITIVE_INFINITY;
    const first = Math.max(MIN_ATTEMPT_MS, HANDSHAKES_PER_ATTEMPT * this.#handshakeMs);
    return first * 2 ** Math.floor(failures / 2);
  }
}

/**
 * When a host may be tried again. Shared by everybody who wants that host, so that a dead one costs one attempt for
 * each step, however many wrappers wait.
 */

const FIRST_STEP_MS = 250;
/** Whoever waits for a host goes on within two seconds of its return, as long as its absence may be a short one. */
const LAST_STEP_MS = 1500;
const LONG_OUTAGE_MS = 120_000;
const LONG_OUTAGE_STEP_MS = 10_000;

export class BackOff {
  #failures = 0;
  #failingSince = 0;
  #notBefore = 0;

  /** Attempts that have failed since the last that did not. */
  get failures(): number {
    return this.#failures;
  }

  /** Milliseconds until the next attempt may begin; the first one after a success may begin at once. */
  get waitMs(): number {
    return Math.max(0, this.#notBefore - Date.now());
  }

  succeeded(): void {
    this.#failures = 0;
    this.#notBefore = 0;
  }

  /**
   * Steps double; up to a quarter is taken off at random, so that many brokers do not come back in step.
   * @param begunAt when the attempt began, as Date.now() says it; the time that it took is part of the step
   */
  failed(begunAt: number): void {
    if (this.#failures === 0) this.#failingSince = begunAt;
    const longest = begunAt - this.#failingSince > LONG_OUTAGE_MS ? LONG_OUTAGE_STEP_MS : LAST_STEP_MS;
    const step = Math.min(FIRST_STEP_MS * 2 ** this.#failures, longest);
    this.#failures += 1;
    this.#notBefore = begunAt + step * (1 - Math.random() / 4);
  }
}

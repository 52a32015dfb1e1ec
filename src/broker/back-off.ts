/**
 * When a host may be tried again. Shared by everybody who wants that host, so that a dead one costs one attempt for
 * each step, however many wrappers wait.
 */

const FIRST_STEP_MS = 250;
const LAST_STEP_MS = 10_000;

export class BackOff {
  #failures = 0;
  #notBefore = 0;

  /** Milliseconds until the next attempt may begin; the first one after a success may begin at once. */
  get waitMs(): number {
    return Math.max(0, this.#notBefore - Date.now());
  }

  succeeded(): void {
    this.#failures = 0;
    this.#notBefore = 0;
  }

  /** Steps double; up to a quarter is taken off at random, so that many brokers do not come back in step. */
  failed(): void {
    const step = Math.min(FIRST_STEP_MS * 2 ** this.#failures, LAST_STEP_MS);
    this.#failures += 1;
    this.#notBefore = Date.now() + step * (1 - Math.random() / 4);
  }
}

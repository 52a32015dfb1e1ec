import { MIN_WINDOW_BYTES, STREAM_WINDOW_BYTES } from "./limits.ts";

/**
 * How much of a stream may be on the way. Everything on one link shares its queues, and a keystroke's echo waits behind
 * whatever bulk streams have put there; so each stream keeps the delay that it causes itself small, in the manner of
 * LEDBAT (RFC 6817): it knows the shortest time in which an acknowledgement has come back, and grows its window while
 * the present time is close to that, and shrinks it otherwise. Streams that share a link all see the same queue, so
 * together they keep about as much in it as one alone.
 *
 * Measured with 8 saturating streams on loopback and over 20 MB/s with a fixed window: docs/benchmarks.md.
 */

/** Queueing delay that a stream lets itself cause, in ms. RFC 6817 allows 100; here a person types on the same link. */
const TARGET_MS = 6;
const INITIAL_WINDOW_BYTES = MIN_WINDOW_BYTES;
/** A time is taken each time so many bytes have been sent. */
const MARK_BYTES = 16 * 1024;
/** The shortest time is forgotten after one to two of these, in ms, since routes change. */
const BASE_PERIOD_MS = 30_000;
/** Largest part of the acknowledged bytes by which the window shrinks. */
const MAX_DECREASE = 0.25;

/** Decides how much of a stream may be sent and not acknowledged. */
export interface SendWindow {
  /** Bytes. */
  readonly size: number;
  /** Everything before `offset` has been sent. */
  sent(offset: number): void;
  /**
   * @param offset everything before it has been acknowledged
   * @param count how many bytes that are newly so
   */
  acknowledged(offset: number, count: number): void;
  /** Another connection may be another route. */
  reset(): void;
}

export class DelayWindow implements SendWindow {
  readonly #now: () => number;
  #size = INITIAL_WINDOW_BYTES;
  #marks: { offset: number; at: number }[] = [];
  #base = Number.POSITIVE_INFINITY;
  #previousBase = Number.POSITIVE_INFINITY;
  #basePeriodEnd = 0;
  #starting = true;

  /** @param now a clock in ms, for tests */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  get size(): number {
    return this.#size;
  }

  sent(offset: number): void {
    const last = this.#marks.at(-1);
    if (last === undefined || offset - last.offset >= MARK_BYTES) this.#marks.push({ offset, at: this.#now() });
  }

  acknowledged(offset: number, count: number): void {
    let covered = 0;
    while (covered < this.#marks.length && this.#marks[covered]!.offset <= offset) covered += 1;
    if (covered === 0) return;
    const now = this.#now();
    const delay = now - this.#marks[covered - 1]!.at;
    this.#marks.splice(0, covered);
    this.#noteBase(delay, now);
    this.#adjust(delay - Math.min(this.#base, this.#previousBase), count);
  }

  reset(): void {
    this.#marks = [];
    this.#starting = true;
    this.#base = Number.POSITIVE_INFINITY;
    this.#previousBase = Number.POSITIVE_INFINITY;
  }

  #noteBase(delay: number, now: number): void {
    if (now > this.#basePeriodEnd) {
      this.#previousBase = this.#base;
      this.#base = delay;
      this.#basePeriodEnd = now + BASE_PERIOD_MS;
    }
    this.#base = Math.min(this.#base, delay);
  }

  /**
   * Doubles in each round trip until there is a queue for the first time; then grows by up to an eighth in each, and
   * shrinks by up to a quarter: what it does is seen only a round trip later, and more would swing.
   */
  #adjust(queueMs: number, count: number): void {
    const offTarget = (TARGET_MS - queueMs) / TARGET_MS;
    if (offTarget < 0.5) this.#starting = false;
    let change = count;
    if (!this.#starting) {
      const growth = count / 8 + (MIN_WINDOW_BYTES / 2) * (count / this.#size);
      change = offTarget > 0 ? offTarget * growth : Math.max(offTarget, -1) * MAX_DECREASE * count;
    }
    this.#size = Math.min(STREAM_WINDOW_BYTES, Math.max(MIN_WINDOW_BYTES, this.#size + change));
  }
}

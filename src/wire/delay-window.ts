import { MIN_WINDOW_BYTES, STREAM_WINDOW_BYTES } from "./limits.ts";

/**
 * How much of a stream may be on the way. Everything on one link shares its queues, and a keystroke's echo waits behind
 * whatever bulk streams have put there. So each stream measures what the link carries for it and in which time, as BBR
 * does (draft-ietf-ccwg-bbr), and has on the way what fills the link and a few milliseconds more. Streams that share a
 * link share its rate, so together they keep no longer a queue than one alone.
 *
 * Deciding from the delay alone (LEDBAT) was tried: the jitter of a busy machine counts as a queue then, and at 30 ms of
 * round-trip time the throughput fell to a twentieth.
 */

/** Queueing delay that a stream lets itself cause, in ms. */
const TARGET_MS = 4;
/** A time is taken each time so many bytes have been sent. */
const MARK_BYTES = 16 * 1024;
/** The shortest time is forgotten after one to two of these, in ms, since routes change. */
const BASE_PERIOD_MS = 30_000;
/** The highest rate is forgotten after one to two of these: in round trips, and at least in ms. */
const RATE_PERIOD_TRIPS = 10;
const RATE_PERIOD_MS = 500;
/** The start is over when in so many round trips the rate has not grown by this factor. */
const START_STALLS = 3;
const START_GROWTH = 1.25;

/** Decides how much of a stream may be sent and not acknowledged. */
export interface SendWindow {
  /** Bytes. */
  readonly size: number;
  /** Everything before `offset` has been sent. */
  sent(offset: number): void;
  /**
   * @param offset everything before it has been acknowledged
   * @param count how many bytes that are newly so
   * @param limited whether more was waiting to be sent: otherwise the rate says nothing about the link
   */
  acknowledged(offset: number, count: number, limited: boolean): void;
  /** Another connection may be another route. */
  reset(): void;
}

export class DelayWindow implements SendWindow {
  readonly #now: () => number;
  #size = MIN_WINDOW_BYTES;
  #marks: { offset: number; at: number; delivered: number }[] = [];
  #delivered = 0;
  #base: Extreme;
  #rate: Extreme;
  #start: { rate: number; stalls: number; roundEnd: number } | undefined;

  /** @param now a clock in ms, for tests */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
    this.#base = new Extreme(Math.min);
    this.#rate = new Extreme(Math.max);
    this.#start = { rate: 0, stalls: 0, roundEnd: 0 };
  }

  get size(): number {
    return this.#size;
  }

  sent(offset: number): void {
    const last = this.#marks.at(-1);
    if (last !== undefined && offset - last.offset < MARK_BYTES) return;
    this.#marks.push({ offset, at: this.#now(), delivered: this.#delivered });
  }

  acknowledged(offset: number, count: number, limited: boolean): void {
    this.#delivered += count;
    let covered = 0;
    while (covered < this.#marks.length && this.#marks[covered]!.offset <= offset) covered += 1;
    if (covered === 0) return;
    const mark = this.#marks[covered - 1]!;
    this.#marks.splice(0, covered);
    const now = this.#now();
    // A clock may not have moved on loopback.
    const delay = Math.max(now - mark.at, 0.01);
    this.#base.add(delay, now, BASE_PERIOD_MS);
    const rate = (this.#delivered - mark.delivered) / delay;
    if (limited || rate > this.#rate.value) {
      this.#rate.add(rate, now, Math.max(RATE_PERIOD_MS, RATE_PERIOD_TRIPS * this.#base.value));
    }
    this.#adjust(offset, count, limited);
  }

  reset(): void {
    this.#marks = [];
    this.#base = new Extreme(Math.min);
    this.#rate = new Extreme(Math.max);
    this.#start = { rate: 0, stalls: 0, roundEnd: 0 };
  }

  /** Doubles in each round trip until that brings no more; then follows what the link carries. */
  #adjust(offset: number, count: number, limited: boolean): void {
    const start = this.#start;
    if (start === undefined) {
      this.#resize(this.#rate.value * (this.#base.value + TARGET_MS));
      return;
    }
    if (!limited) return;
    this.#resize(this.#size + count);
    if (offset < start.roundEnd) return;
    start.roundEnd = offset + this.#size;
    if (this.#rate.value > start.rate * START_GROWTH) {
      start.rate = this.#rate.value;
      start.stalls = 0;
      return;
    }
    start.stalls += 1;
    if (start.stalls === START_STALLS) this.#start = undefined;
  }

  #resize(size: number): void {
    this.#size = Math.min(STREAM_WINDOW_BYTES, Math.max(MIN_WINDOW_BYTES, size));
  }
}

/** The smallest or largest value of the last one to two periods. */
class Extreme {
  readonly #pick: (a: number, b: number) => number;
  #current: number | undefined;
  #previous: number | undefined;
  #periodEnd = 0;

  constructor(pick: (a: number, b: number) => number) {
    this.#pick = pick;
  }

  /** 0 when there was none. */
  get value(): number {
    if (this.#current === undefined) return 0;
    return this.#previous === undefined ? this.#current : this.#pick(this.#current, this.#previous);
  }

  add(value: number, now: number, period: number): void {
    if (now > this.#periodEnd) {
      this.#previous = this.#current;
      this.#current = undefined;
      this.#periodEnd = now + period;
    }
    this.#current = this.#current === undefined ? value : this.#pick(this.#current, value);
  }
}

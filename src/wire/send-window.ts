import { MIN_WINDOW_BYTES, STREAM_WINDOW_BYTES } from "./limits.ts";

/**
 * How much the streams over one link may have on the way together. They share its queues, and a keystroke's echo waits
 * behind whatever bulk streams have put there. So the sender measures what the link carries and in which time, as BBR
 * does (draft-ietf-ccwg-bbr), and has on the way what fills the link and a few milliseconds more.
 *
 * Two other ways were tried. With a window for each stream every one of them sees rates that the others leave it by
 * chance, and takes the highest for its own: beside 8 streams over 20 MB/s an echo took 100 ms. Deciding from the delay
 * alone (LEDBAT) counts the jitter of a busy machine as a queue: at 30 ms of round-trip time the throughput fell to a
 * twentieth.
 */

/** Queueing delay that the streams let themselves cause: this, and a part of the round-trip time up to a limit, in ms. */
const QUEUE_MS = 5;
const QUEUE_SHARE = 0.25;
const MAX_QUEUE_SHARE_MS = 8;
/** What may be on the way before anything has been measured. Bytes. */
const INITIAL_BYTES = 256 * 1024;
/** Most that one stream sends before it is another one's turn. Bytes. */
const TURN_BYTES = 32 * 1024;
/** Less than this is not worth a frame, unless it is all that there is. Bytes. */
const MIN_TURN_BYTES = 4 * 1024;
/** What each stream may have on the way when the link is full: a keystroke's echo does not wait for bulk. Bytes. */
const OWN_BYTES = 4 * 1024;
/** A time is taken each time a stream has sent so many bytes. */
const MARK_BYTES = 16 * 1024;
/** The shortest time is forgotten after one to two of these, in ms, since routes change. */
const BASE_PERIOD_MS = 5000;
/** The highest rate is forgotten after one to two of these: in round trips, and at least in ms. */
const RATE_PERIOD_TRIPS = 10;
const RATE_PERIOD_MS = 500;
/** The start is over when in so many round trips the rate has not grown by this factor. */
const START_STALLS = 3;
const START_GROWTH = 1.25;
/** Round trips with half of the window, so that its own queue does not pass for the length of the link. */
const DRAIN_TRIPS = 2;
/** A stream of which nothing arrives for so long, while others go on, waits for its reader and not for the link. */
const HELD_UP_TRIPS = 4;
const HELD_UP_MS = 100;

/** What decides how much of a stream may be sent. */
export interface SendWindow {
  /**
   * @param offset where the stream begins to be sent
   * @param send sends at most so many bytes and says how many; fewer means that there are no more now
   */
  join(offset: number, send: (most: number) => number): WindowShare;
}

/** One stream's part of a window. */
export interface WindowShare {
  /** There is something to send: `send` is called as soon as it may be, perhaps at once. */
  request(): void;
  /** Everything before `offset` has arrived. */
  acknowledged(offset: number): void;
  /** Nothing more will be sent or acknowledged. */
  leave(): void;
}

/** The window of one link. */
export class LinkWindow implements SendWindow {
  readonly #now: () => number;
  readonly #shares = new Set<Share>();
  /** Those that have something to send, in the order of their turns. */
  readonly #waiting = new Set<Share>();
  #serving = false;
  #timer: NodeJS.Timeout | undefined;
  #size = INITIAL_BYTES;
  /** Bytes on the way that count. */
  #flying = 0;
  #delivered = 0;
  #deliveredAt = 0;
  readonly #base = new Extreme(Math.min);
  readonly #rate = new Extreme(Math.max);
  #roundEnd = 0;
  #start: { rate: number; stalls: number } | undefined = { rate: 0, stalls: 0 };
  #drainRounds = 0;

  /** @param now a clock in ms, for tests */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Bytes. */
  get size(): number {
    return this.#size;
  }

  join(offset: number, send: (most: number) => number): WindowShare {
    const share = new Share(this, offset, send);
    this.#shares.add(share);
    return share;
  }

  request(share: Share): void {
    this.#waiting.add(share);
    this.#serve();
  }

  leave(share: Share): void {
    this.#flying -= share.flying;
    this.#shares.delete(share);
    this.#waiting.delete(share);
    this.#serve();
  }

  acknowledged(share: Share, offset: number): void {
    const now = this.#now();
    const before = share.flying;
    const count = Math.min(offset, share.sent) - share.arrived;
    if (count <= 0) return;
    share.arrived += count;
    share.progressAt = now;
    this.#flying -= before - share.flying;
    this.#delivered += count;
    this.#deliveredAt = now;
    const mark = share.takeMark();
    if (mark !== undefined) this.#measure(mark, now);
    this.#adjust(count);
    this.#serve();
  }

  #measure(mark: Mark, now: number): void {
    // A clock may not have moved on loopback.
    const delay = Math.max(now - mark.at, 0.01);
    const limited = this.#waiting.size > 0;
    const begun = this.#base.add(delay, now, BASE_PERIOD_MS);
    if (begun && limited && this.#start === undefined) this.#drainRounds = DRAIN_TRIPS;
    const rate = (this.#delivered - mark.delivered) / delay;
    // A rate at which nobody waited is what was asked of the link, not what it carries.
    if (limited || rate > this.#rate.value) {
      this.#rate.add(rate, now, Math.max(RATE_PERIOD_MS, RATE_PERIOD_TRIPS * this.#base.value));
    }
  }

  /** Doubles in each round trip until that brings no more; then follows what the link carries. */
  #adjust(count: number): void {
    const newRound = this.#delivered >= this.#roundEnd;
    if (newRound) this.#roundEnd = this.#delivered + this.#flying;
    const start = this.#start;
    if (start === undefined) {
      if (newRound && this.#drainRounds > 0) this.#drainRounds -= 1;
      const base = this.#base.value;
      const queue = QUEUE_MS + Math.min(QUEUE_SHARE * base, MAX_QUEUE_SHARE_MS);
      this.#resize(this.#rate.value * (base + queue) * (this.#drainRounds > 0 ? 0.5 : 1));
      return;
    }
    if (this.#waiting.size === 0) return;
    this.#resize(this.#size + count);
    if (!newRound) return;
    if (this.#rate.value > start.rate * START_GROWTH) {
      start.rate = this.#rate.value;
      start.stalls = 0;
      return;
    }
    start.stalls += 1;
    if (start.stalls === START_STALLS) this.#start = undefined;
  }

  #resize(size: number): void {
    // One stream cannot have more on the way, and more than a few of that no link of this world needs.
    this.#size = Math.floor(Math.min(8 * STREAM_WINDOW_BYTES, Math.max(MIN_WINDOW_BYTES, size)));
  }

  /** Lets the streams that wait send in turn, as far as the window goes. */
  #serve(): void {
    if (this.#serving) return;
    this.#serving = true;
    let refused = 0;
    while (this.#waiting.size > refused) {
      const [share] = this.#waiting as unknown as [Share];
      this.#waiting.delete(share);
      const most = this.#mostFor(share);
      if (most === 0) {
        this.#waiting.add(share);
        refused += 1;
        continue;
      }
      const count = share.send(most);
      if (count > 0) this.#sent(share, count);
      if (count < most) continue;
      this.#waiting.add(share);
      refused = 0;
    }
    this.#serving = false;
    if (this.#waiting.size > 0) this.#watch();
  }

  #mostFor(share: Share): number {
    const room = this.#size - this.#flying;
    if (room >= MIN_TURN_BYTES) return Math.min(room, TURN_BYTES);
    return Math.max(0, OWN_BYTES - share.flying);
  }

  #sent(share: Share, count: number): void {
    const now = this.#now();
    if (share.flying === 0) share.progressAt = now;
    share.sent += count;
    this.#flying += count;
    share.mark(now, this.#delivered);
  }

  /** Nothing may ever arrive again of what a stopped reader's stream has on the way, and the others go on. */
  #watch(): void {
    if (this.#timer !== undefined) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      if (this.#waiting.size === 0) return;
      this.#discountHeldUp();
      this.#serve();
    }, HELD_UP_MS);
    this.#timer.unref();
  }

  #discountHeldUp(): void {
    const now = this.#now();
    const patience = Math.max(HELD_UP_MS, HELD_UP_TRIPS * this.#base.value);
    // When nothing arrives at all it is the link that stands still.
    if (now - this.#deliveredAt > patience) return;
    for (const share of this.#shares) {
      if (share.flying === 0 || now - share.progressAt <= patience) continue;
      this.#flying -= share.flying;
      share.discount();
    }
  }
}

interface Mark {
  offset: number;
  at: number;
  delivered: number;
}

class Share implements WindowShare {
  readonly #window: LinkWindow;
  readonly send: (most: number) => number;
  sent: number;
  /** Offset before which everything has been acknowledged. */
  arrived: number;
  /** When it last got on, in ms. */
  progressAt = 0;
  /** What is before this offset does not count as on the way. */
  #countedFrom = 0;
  #marks: Mark[] = [];

  constructor(window: LinkWindow, offset: number, send: (most: number) => number) {
    this.#window = window;
    this.send = send;
    this.sent = offset;
    this.arrived = offset;
  }

  /** Bytes on the way that count. */
  get flying(): number {
    return this.sent - Math.max(this.arrived, this.#countedFrom);
  }

  request(): void {
    this.#window.request(this);
  }

  acknowledged(offset: number): void {
    this.#window.acknowledged(this, offset);
  }

  leave(): void {
    this.#window.leave(this);
  }

  /** What is on the way now counts no more. */
  discount(): void {
    this.#countedFrom = this.sent;
    this.#marks = [];
  }

  mark(at: number, delivered: number): void {
    const last = this.#marks.at(-1);
    if (last !== undefined && this.sent - last.offset < MARK_BYTES) return;
    this.#marks.push({ offset: this.sent, at, delivered });
  }

  /** The last mark that has been acknowledged; it and those before it are gone afterwards. */
  takeMark(): Mark | undefined {
    let covered = 0;
    while (covered < this.#marks.length && this.#marks[covered]!.offset <= this.arrived) covered += 1;
    return this.#marks.splice(0, covered).at(-1);
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

  /** @returns whether a new period has begun */
  add(value: number, now: number, period: number): boolean {
    const begun = now > this.#periodEnd;
    if (begun) {
      this.#previous = this.#current;
      this.#current = undefined;
      this.#periodEnd = now + period;
    }
    this.#current = this.#current === undefined ? value : this.#pick(this.#current, value);
    return begun;
  }
}

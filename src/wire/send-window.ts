import { ACKNOWLEDGE_STEP_BYTES, MIN_WINDOW_BYTES, STREAM_WINDOW_BYTES } from "./limits.ts";

/**
 * How much the streams over one link may have on the way together. They share its queues, and a keystroke's echo waits
 * behind whatever bulk streams have put there. So the sender measures how long the queue is, as LEDBAT does (RFC 6817),
 * and has on the way what fills the link and a few milliseconds more.
 *
 * The queue is the shortest time that anything took lately over the shortest that it ever took: what a busy machine or a
 * slow reader adds to some of the times is no queue of the link. Taken from every single time, 30 ms of round-trip time and
 * a little jitter made a twentieth of the throughput. And streams decide together: with a window for each, beside 8 of
 * them over 20 MB/s an echo took 100 ms.
 */

/** The queue that the streams let themselves cause, in ms. */
const TARGET_MS = 4;
/** What may be on the way before anything has been measured. Bytes. */
const INITIAL_BYTES = 256 * 1024;
/** More than any link of this world needs. Bytes. */
const MAX_BYTES = 8 * STREAM_WINDOW_BYTES;
/** Most that one stream sends before it is another one's turn. Bytes. */
const TURN_BYTES = 32 * 1024;
/** What each stream may have on the way when the link is full: a keystroke's echo does not wait for bulk. Bytes. */
const OWN_BYTES = 4 * 1024;
/** A time is taken each time a stream has sent so many bytes. */
const MARK_BYTES = 16 * 1024;
/** The shortest time is forgotten after one to two of these, in ms, since routes change. */
const BASE_PERIOD_MS = 5000;
/** The window is set anew when times of what was sent under the present one have come in for so long, in ms. */
const LOOK_MS = 40;
/** By how much of itself the window grows or shrinks at most from one look to the next. */
const MAX_CHANGE = 0.5;
/** Until so many ms of queue have been seen, the window grows with everything that arrives: it doubles in a round trip. */
const START_QUEUE_MS = 20;
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
  /** When anything arrived the last time. */
  #deliveredAt = 0;
  readonly #base = new RecentMinimum();
  #starting = true;
  /** What the window grows by when there is no queue, as a multiple of what would make the queue that is wanted. */
  #eagerness = 1;
  /** What has been seen of what was sent since `from`. */
  #look = { from: 0, shortest: Number.POSITIVE_INFINITY, limited: false };
  /** The window proper while a smaller one is in force, so that its own queue does not pass for the length of the link. */
  #afterDrain: number | undefined;

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
    this.#deliveredAt = now;
    const mark = share.takeMark();
    if (this.#waiting.size > 0) this.#look.limited = true;
    if (mark !== undefined) this.#measure(mark.at, now);
    if (this.#starting && this.#look.limited) this.#resize(this.#size + count);
    this.#serve();
  }

  #measure(sentAt: number, now: number): void {
    const delay = now - sentAt;
    const begun = this.#base.add(delay, now);
    const look = this.#look;
    if (this.#starting && delay > this.#base.value + START_QUEUE_MS) this.#starting = false;
    if (begun && look.limited && !this.#starting && this.#afterDrain === undefined) {
      this.#afterDrain = this.#size;
      this.#resize(this.#size / 2);
      this.#lookAgain(now);
      return;
    }
    if (sentAt >= look.from) look.shortest = Math.min(look.shortest, delay);
    if (look.shortest === Number.POSITIVE_INFINITY || now - look.from < this.#base.value + LOOK_MS) return;
    if (this.#afterDrain !== undefined) {
      this.#resize(this.#afterDrain);
      this.#afterDrain = undefined;
    } else if (!this.#starting) {
      this.#adjust(look.shortest, look.limited);
    }
    this.#lookAgain(now);
  }

  #lookAgain(now: number): void {
    this.#look = { from: now, shortest: Number.POSITIVE_INFINITY, limited: this.#waiting.size > 0 };
  }

  /**
   * @param shortest time that anything took under the present window, in ms
   * @param limited whether anything had to wait for the window
   */
  #adjust(shortest: number, limited: boolean): void {
    const base = this.#base.value;
    const queue = shortest - base;
    // What is on the way is in proportion to the time that it takes, so this would make the queue what it should be.
    const change = (TARGET_MS - queue) / (base + queue);
    if (change < 0) {
      this.#eagerness = 1;
      this.#resize(this.#size * (1 + Math.max(change, -MAX_CHANGE)));
    } else if (limited) {
      // No queue again and again: it was not even full.
      this.#eagerness = queue < TARGET_MS / 4 ? this.#eagerness * 2 : 1;
      this.#resize(this.#size * (1 + Math.min(change * this.#eagerness, MAX_CHANGE)));
    }
  }

  #resize(size: number): void {
    this.#size = Math.floor(Math.min(MAX_BYTES, Math.max(MIN_WINDOW_BYTES, size)));
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
    // What is less than that is acknowledged later, and the time that it takes would say nothing.
    if (room >= ACKNOWLEDGE_STEP_BYTES) return Math.min(room, TURN_BYTES);
    return Math.max(0, OWN_BYTES - share.flying);
  }

  #sent(share: Share, count: number): void {
    const now = this.#now();
    if (share.flying === 0) share.progressAt = now;
    share.sent += count;
    this.#flying += count;
    share.mark(now);
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

  mark(at: number): void {
    const last = this.#marks.at(-1);
    if (last !== undefined && this.sent - last.offset < MARK_BYTES) return;
    this.#marks.push({ offset: this.sent, at });
  }

  /** The last mark that has been acknowledged; it and those before it are gone afterwards. */
  takeMark(): Mark | undefined {
    let covered = 0;
    while (covered < this.#marks.length && this.#marks[covered]!.offset <= this.arrived) covered += 1;
    return this.#marks.splice(0, covered).at(-1);
  }
}

/** The smallest value of the last one to two periods. */
class RecentMinimum {
  #current = Number.POSITIVE_INFINITY;
  #previous = Number.POSITIVE_INFINITY;
  #periodEnd = 0;

  get value(): number {
    return Math.min(this.#current, this.#previous);
  }

  /** @returns whether a new period has begun */
  add(value: number, now: number): boolean {
    const begun = now > this.#periodEnd;
    if (begun) {
      this.#previous = this.#current;
      this.#current = Number.POSITIVE_INFINITY;
      this.#periodEnd = now + BASE_PERIOD_MS;
    }
    this.#current = Math.min(this.#current, value);
    return begun;
  }
}

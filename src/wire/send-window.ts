import { ACKNOWLEDGE_STEP_BYTES, MAX_DATA_BYTES, MIN_WINDOW_BYTES, STREAM_WINDOW_BYTES } from "./limits.ts";

/**
 * How much the streams over one link may have on the way together. They share its queues, and a keystroke's echo waits
 * behind whatever bulk streams have put there. So the sender measures how long the queue is, as LEDBAT does (RFC 6817),
 * and has on the way what fills the link and a few milliseconds more. Three things differ from LEDBAT:
 *
 * A time is the shortest one of many, for what a busy machine or a slow reader adds to some of them is no queue of the
 * link. Taken one by one, 30 ms of round-trip time and a little jitter made a twentieth of the throughput.
 *
 * How long a link takes without a queue is what remains when a smaller window makes the time no shorter. The shortest
 * time ever seen is a lucky one, and a longer route or somebody else's queue would be taken for our own.
 *
 * Streams decide together: with a window for each, beside 8 of them over 20 MB/s an echo took 100 ms.
 */

/** The queue that bulk streams let themselves cause when they are alone, in ms. */
const BULK_TARGET_MS = 25;
/** And beside a stream that sends little at a time, such as the echo of keystrokes, in ms. */
const TARGET_MS = 4;
/** For how long after it has sent something there is such a stream, in ms. */
const SPARSE_MS = 5000;
/** What may be on the way before anything has been measured. Bytes. */
const INITIAL_BYTES = 256 * 1024;
/** More than any link of this world needs. Bytes. */
const MAX_BYTES = 8 * STREAM_WINDOW_BYTES;
/** Most that one stream sends before it is another one's turn, when there are others. Bytes. */
const TURN_BYTES = 32 * 1024;
/** What each stream may have on the way when the link is full: a keystroke's echo does not wait for bulk. Bytes. */
const OWN_BYTES = 4 * 1024;
/** A time is taken each time a stream has sent so many bytes. */
const MARK_BYTES = 16 * 1024;
/** Every so often the window is halved for a moment, to see how long the link takes without a queue, in ms. */
const PROBE_PERIOD_MS = 5000;
/** The window is set anew when times of what was sent under the present one have come in for so long, in ms. */
const LOOK_MS = 40;
/** By how much of itself the window grows or shrinks at most from one look to the next. */
const MAX_CHANGE = 0.5;
/** When it has shrunk to this part, the time must have become shorter as well, if there was a queue of our making. */
const TELLING_PART = 0.7;
/** Until so many ms of queue have been seen, the window grows with everything that arrives: it doubles in a round trip. */
const START_QUEUE_MS = BULK_TARGET_MS;
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
  /** How long the link takes without a queue, in ms. */
  #base = Number.POSITIVE_INFINITY;
  #starting = true;
  /** What the window grows by when there is no queue, as a multiple of what would make the queue that is wanted. */
  #eagerness = 1;
  /** The largest window since the last judgement, and the shortest time under it. */
  #reference = { size: 0, shortest: 0 };
  /** The window proper while half or double of it is in force. */
  #probing: number | undefined;
  #probeAt = 0;
  /** When a stream last sent all that it had, and that was little. */
  #sparseAt = Number.NEGATIVE_INFINITY;
  /** What has been seen of what was sent since `from`. */
  #look = { from: 0, shortest: Number.POSITIVE_INFINITY, limited: false };

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
    const look = this.#look;
    if (this.#starting) {
      this.#base = Math.min(this.#base, delay);
      if (delay <= this.#base + START_QUEUE_MS) return;
      this.#starting = false;
      this.#probeAt = now + PROBE_PERIOD_MS;
      this.#lookAgain(now);
      return;
    }
    if (sentAt > look.from) look.shortest = Math.min(look.shortest, delay);
    if (look.shortest === Number.POSITIVE_INFINITY || now - look.from < this.#base + LOOK_MS) return;
    this.#judge(look.shortest);
    if (this.#probing !== undefined) {
      this.#resize(this.#probing);
      this.#probing = undefined;
    } else if (look.limited && now >= this.#probeAt) {
      this.#probeAt = now + PROBE_PERIOD_MS;
      this.#reference = { size: this.#size, shortest: look.shortest };
      this.#probing = this.#size;
      this.#resize(this.#size >= 2 * MIN_WINDOW_BYTES ? this.#size / 2 : this.#size * 2);
    } else {
      this.#adjust(look.shortest, look.limited);
    }
    this.#lookAgain(now);
  }

  /**
   * What says something about the new window is what is sent when it has become full. It may never be: a stream has
   * bounds of its own.
   */
  #lookAgain(now: number): void {
    this.#look = {
      from: now + 2 * this.#base + LOOK_MS,
      shortest: Number.POSITIVE_INFINITY,
      limited: this.#waiting.size > 0,
    };
  }

  /** @param shortest time that anything took under the present window, in ms */
  #judge(shortest: number): void {
    this.#base = Math.min(this.#base, shortest);
    const { size, shortest: before } = this.#reference;
    const ratio = this.#size / size;
    // With a queue the time is in proportion to what is on the way.
    const halfway = (before * (1 + ratio)) / 2;
    if (ratio <= TELLING_PART) {
      if (shortest > halfway) this.#base = shortest;
    } else if (this.#probing !== undefined) {
      if (shortest < halfway) this.#base = Math.min(before, shortest);
    } else if (ratio < 1) {
      return;
    }
    this.#reference = { size: this.#size, shortest };
  }

  /** @param limited whether anything had to wait for the window */
  #adjust(shortest: number, limited: boolean): void {
    const target = this.#target();
    const queue = shortest - this.#base;
    // What is on the way is in proportion to the time that it takes, so this would make the queue what it should be.
    const change = (target - queue) / shortest;
    if (change < 0) {
      this.#eagerness = 1;
      // It may never have been full.
      const size = Math.min(this.#size, this.#flying + TURN_BYTES);
      this.#resize(size * (1 + Math.max(change, -MAX_CHANGE)));
    } else if (limited) {
      // Hardly any queue again and again: it was not even full.
      this.#eagerness = queue < target / 2 ? this.#eagerness * 2 : 1;
      this.#resize(this.#size * (1 + Math.min(change * this.#eagerness, MAX_CHANGE)));
    }
  }

  #target(): number {
    return this.#now() - this.#sparseAt > SPARSE_MS ? BULK_TARGET_MS : TARGET_MS;
  }

  #resize(size: number): void {
    this.#size = Math.floor(Math.min(MAX_BYTES, Math.max(MIN_WINDOW_BYTES, size)));
  }

  #serve(): void {
    // Sending may end a stream, which asks for this again.
    if (this.#serving) return;
    this.#serving = true;
    try {
      this.#takeTurns();
    } finally {
      this.#serving = false;
    }
    if (this.#waiting.size > 0) this.#watch();
  }

  /** Lets the streams that wait send in turn, as far as the window goes. */
  #takeTurns(): void {
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
      const more = count === most;
      if (count > 0) this.#sent(share, count, more);
      if (!more) continue;
      this.#waiting.add(share);
      refused = 0;
    }
  }

  #mostFor(share: Share): number {
    const room = this.#size - this.#flying;
    // What is less than that is acknowledged later, and the time that it takes would say nothing.
    if (room >= ACKNOWLEDGE_STEP_BYTES) return Math.min(room, this.#waiting.size === 0 ? MAX_DATA_BYTES : TURN_BYTES);
    return Math.max(0, OWN_BYTES - share.flying);
  }

  #sent(share: Share, count: number, more: boolean): void {
    const now = this.#now();
    if (share.flying === 0) share.progressAt = now;
    const fits = this.#flying < this.#size;
    if (fits && this.#flying + count + ACKNOWLEDGE_STEP_BYTES > this.#size) {
      this.#look.from = Math.min(this.#look.from, now);
    }
    share.sent += count;
    this.#flying += count;
    if (!more && share.flying <= OWN_BYTES) this.#sparseAt = now;
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
    const patience = Math.max(HELD_UP_MS, HELD_UP_TRIPS * this.#base);
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

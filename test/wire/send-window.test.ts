import { describe, expect, it, onTestFinished, vi } from "vitest";
import { ACKNOWLEDGE_STEP_BYTES, MIN_WINDOW_BYTES, STREAM_WINDOW_BYTES } from "../../src/wire/limits.ts";
import { LinkWindow, type WindowShare } from "../../src/wire/send-window.ts";

/** What is left to a sender when it has no more to send than this. */
const ENDLESS = Number.POSITIVE_INFINITY;

const KEYSTROKE_MS = 50;

/** A stream of a window: sends what it is let, up to what it has. */
class Stream {
  readonly share: WindowShare;
  sent = 0;
  acknowledged = 0;
  onSent: (count: number) => void = () => {};

  constructor(window: LinkWindow, waiting: number) {
    let left = waiting;
    this.share = window.join(0, (most) => {
      const room = this.acknowledged + STREAM_WINDOW_BYTES - this.sent;
      const count = Math.min(most, left, room);
      left -= count;
      this.sent += count;
      if (count > 0) this.onSent(count);
      return count;
    });
  }

  get flying(): number {
    return this.sent - this.acknowledged;
  }

  acknowledge(count: number): void {
    this.acknowledged += count;
    this.share.acknowledged(this.acknowledged);
    this.share.request();
  }
}

/** Streams that share one link: what they send queues in order at a fixed rate, and an acknowledgement comes a trip later. */
class Link {
  now = 0;
  tripMs: number;
  readonly window = new LinkWindow(() => this.now);
  readonly #bytesPerMs: number;
  readonly #jitter: () => number;
  #freeAt = 0;
  #lastDue = 0;
  readonly #arrivals: { at: number; stream: Stream; count: number }[] = [];
  /** What each piece waited in the queue since the last `forget`, in ms. */
  waits: number[] = [];
  delivered = 0;

  constructor(bytesPerMs: number, tripMs: number, jitter = () => 0) {
    this.#bytesPerMs = bytesPerMs;
    this.tripMs = tripMs;
    this.#jitter = jitter;
  }

  /** @param consumedAfterMs how long its reader takes for each piece */
  addStream(waiting = ENDLESS, consumedAfterMs = 0): Stream {
    const stream = new Stream(this.window, waiting);
    stream.onSent = (count) => {
      const start = Math.max(this.#freeAt, this.now);
      this.waits.push(start - this.now);
      this.#freeAt = start + count / this.#bytesPerMs;
      const due = Math.max(this.#lastDue, this.#freeAt + this.tripMs + this.#jitter());
      this.#lastDue = due;
      this.#arrivals.push({ at: due + consumedAfterMs, stream, count });
    };
    stream.share.request();
    return stream;
  }

  /** Somebody types, or nobody. */
  typing = false;

  runUntil(end: number): void {
    while (this.typing && this.now + KEYSTROKE_MS < end) {
      this.addStream(10);
      this.#run(this.now + KEYSTROKE_MS);
    }
    this.#run(end);
  }

  #run(end: number): void {
    for (;;) {
      this.#arrivals.sort((a, b) => a.at - b.at);
      if (this.#arrivals.length === 0 || this.#arrivals[0]!.at > end) break;
      const { at, stream, count } = this.#arrivals.shift()!;
      this.now = at;
      this.delivered += count;
      stream.acknowledge(count);
    }
    this.now = end;
  }

  /** Share of its capacity that the link carries in this time, and what the slowest twentieth waits at least, in ms. */
  measure(durationMs: number): { usage: number; wait: number } {
    this.waits = [];
    this.delivered = 0;
    this.runUntil(this.now + durationMs);
    this.waits.sort((a, b) => a - b);
    return {
      usage: this.delivered / durationMs / this.#bytesPerMs,
      wait: this.waits[Math.floor(this.waits.length * 0.95)]!,
    };
  }
}

/** Evenly spread up to a limit, the same in each run. */
function jitter(limitMs: number): () => number {
  let seed = 1;
  return () => {
    seed = (seed * 16_807) % 2_147_483_647;
    return (seed / 2_147_483_647) * limitMs;
  };
}

function useFakeTimers(): void {
  vi.useFakeTimers();
  onTestFinished(() => {
    vi.useRealTimers();
  });
}

describe("the window of a link", () => {
  it.each([
    { streams: 1, bytesPerMs: 20_000, tripMs: 30 },
    { streams: 8, bytesPerMs: 20_000, tripMs: 30 },
    { streams: 8, bytesPerMs: 100_000, tripMs: 1 },
    { streams: 8, bytesPerMs: 10_000, tripMs: 100 },
  ])(
    "fills the link and keeps its queue short: $streams streams at $bytesPerMs kB/s, $tripMs ms",
    ({ streams, bytesPerMs, tripMs }) => {
      const link = new Link(bytesPerMs, tripMs);
      link.typing = true;
      for (let count = 0; count < streams; count += 1) link.addStream();
      link.runUntil(5000);
      const { usage, wait } = link.measure(15_000);
      expect(usage).toBeGreaterThan(0.9);
      expect(wait).toBeLessThan(20);
    },
  );

  it("gives its streams like parts", () => {
    const link = new Link(20_000, 30);
    const streams = Array.from({ length: 8 }, () => link.addStream());
    link.runUntil(5000);
    const before = streams.map(({ acknowledged }) => acknowledged);
    link.runUntil(6000);
    const parts = streams.map(({ acknowledged }, index) => acknowledged - before[index]!);
    expect(Math.min(...parts) / Math.max(...parts)).toBeGreaterThan(0.8);
  });

  it("is not taken in by the jitter of a busy machine", () => {
    const link = new Link(100_000, 30, jitter(25));
    link.addStream();
    link.runUntil(2000);
    // A window of 2 MiB and 55 ms at the most would give 38 MB/s.
    expect(link.measure(5000).usage).toBeGreaterThan(0.3);
    // Beside a terminal there is less, but not nothing.
    link.typing = true;
    expect(link.measure(5000).usage).toBeGreaterThan(0.03);
  });

  it("follows the link when it becomes longer or shorter", () => {
    const link = new Link(10_000, 20);
    link.typing = true;
    for (let count = 0; count < 4; count += 1) link.addStream();
    link.runUntil(3000);
    link.tripMs = 100;
    link.runUntil(20_000);
    expect(link.measure(5000).usage).toBeGreaterThan(0.8);
    link.tripMs = 10;
    link.runUntil(link.now + 15_000);
    const { usage, wait } = link.measure(5000);
    expect(usage).toBeGreaterThan(0.9);
    expect(wait).toBeLessThan(20);
  });

  it("lets a keystroke's echo leave at once, and a stream that has joined later send", () => {
    const link = new Link(20_000, 30);
    for (let count = 0; count < 8; count += 1) link.addStream();
    link.runUntil(3000);
    const echo = link.addStream(10);
    expect(echo.sent).toBe(10);
    const bulk = link.addStream();
    link.runUntil(link.now + 200);
    expect(bulk.acknowledged).toBeGreaterThan(ACKNOWLEDGE_STEP_BYTES);
  });

  it("does not shrink for a program that writes little", () => {
    let now = 0;
    const window = new LinkWindow(() => now);
    const before = window.size;
    const stream = new Stream(window, ENDLESS);
    for (let round = 0; round < 100; round += 1) {
      const slow = new Stream(window, 1000);
      slow.share.request();
      now += 2;
      slow.acknowledge(1000);
      slow.share.leave();
    }
    expect(window.size).toBe(before);
    stream.share.leave();
  });

  it("never becomes so small that nothing moves", () => {
    let now = 0;
    const window = new LinkWindow(() => now);
    const stream = new Stream(window, ENDLESS);
    stream.share.request();
    for (let round = 0; round < 200; round += 1) {
      now += 100 + 50 * round;
      stream.acknowledge(stream.flying);
    }
    expect(window.size).toBeGreaterThanOrEqual(MIN_WINDOW_BYTES);
    expect(stream.flying).toBeGreaterThan(0);
  });

  it("a reader that has stopped holds nobody up", () => {
    useFakeTimers();
    let now = 0;
    const window = new LinkWindow(() => now);
    const stopped = new Stream(window, ENDLESS);
    stopped.share.request();
    expect(stopped.flying).toBeGreaterThanOrEqual(window.size - ACKNOWLEDGE_STEP_BYTES);
    const other = new Stream(window, ENDLESS);
    other.share.request();
    const begun = other.flying;
    expect(begun).toBeLessThanOrEqual(ACKNOWLEDGE_STEP_BYTES);
    for (let round = 0; round < 20; round += 1) {
      now += 20;
      other.acknowledge(other.flying);
      vi.advanceTimersByTime(20);
    }
    expect(other.flying).toBeGreaterThan(10 * begun);
    // When it reads again it goes on as if nothing had happened.
    stopped.acknowledge(stopped.flying);
    expect(stopped.flying).toBeGreaterThan(0);
    vi.advanceTimersByTime(1000);
  });

  it("a link that stands still is not filled any further", () => {
    useFakeTimers();
    let now = 0;
    const window = new LinkWindow(() => now);
    const streams = [new Stream(window, ENDLESS), new Stream(window, ENDLESS)];
    for (const { share } of streams) share.request();
    const flying = streams.map((stream) => stream.flying);
    now += 60_000;
    vi.advanceTimersByTime(60_000);
    expect(streams.map((stream) => stream.flying)).toEqual(flying);
  });

  it("what a stream has left behind when it goes is free for others", () => {
    const window = new LinkWindow(() => 0);
    const gone = new Stream(window, ENDLESS);
    gone.share.request();
    const other = new Stream(window, ENDLESS);
    other.share.request();
    const before = other.flying;
    gone.share.leave();
    expect(other.flying).toBeGreaterThan(before);
  });
});

import { describe, expect, it } from "vitest";
import { DelayWindow } from "../../src/wire/delay-window.ts";
import { MIN_WINDOW_BYTES, STREAM_WINDOW_BYTES } from "../../src/wire/limits.ts";

const FRAME_BYTES = 16 * 1024;

/** Streams that share one link: frames queue in order at a fixed rate, and an acknowledgement comes a trip later. */
class SharedLink {
  now = 0;
  readonly #bytesPerMs: number;
  readonly #tripMs: number;
  #freeAt = 0;
  readonly #events: { at: number; run: () => void }[] = [];
  /** What each frame waited in the queue since the last `forget`, in ms. */
  waits: number[] = [];
  delivered = 0;

  constructor(bytesPerMs: number, tripMs: number) {
    this.#bytesPerMs = bytesPerMs;
    this.#tripMs = tripMs;
  }

  addSaturatingStream(): void {
    const window = new DelayWindow(() => this.now);
    let sent = 0;
    let acknowledged = 0;
    const send = () => {
      while (sent - acknowledged < window.size) {
        sent += FRAME_BYTES;
        window.sent(sent);
        const offset = sent;
        const start = Math.max(this.#freeAt, this.now);
        this.waits.push(start - this.now);
        this.#freeAt = start + FRAME_BYTES / this.#bytesPerMs;
        this.#events.push({
          at: this.#freeAt + this.#tripMs,
          run: () => {
            this.delivered += FRAME_BYTES;
            window.acknowledged(offset, offset - acknowledged, true);
            acknowledged = offset;
            send();
          },
        });
      }
    };
    send();
  }

  runUntil(end: number): void {
    for (;;) {
      this.#events.sort((a, b) => a.at - b.at);
      if (this.#events.length === 0 || this.#events[0]!.at > end) break;
      const { at, run } = this.#events.shift()!;
      this.now = at;
      run();
    }
    this.now = end;
  }
}

describe("a window that follows the delay", () => {
  it.each([
    { streams: 1, bytesPerMs: 20_000, tripMs: 30 },
    { streams: 8, bytesPerMs: 20_000, tripMs: 30 },
    { streams: 8, bytesPerMs: 100_000, tripMs: 1 },
  ])(
    "fills the link and keeps its queue short: $streams streams at $bytesPerMs kB/s, $tripMs ms",
    ({ streams, bytesPerMs, tripMs }) => {
      const link = new SharedLink(bytesPerMs, tripMs);
      for (let count = 0; count < streams; count += 1) link.addSaturatingStream();
      link.runUntil(3000);
      link.waits = [];
      link.delivered = 0;
      link.runUntil(6000);
      expect(link.delivered / 3000 / bytesPerMs).toBeGreaterThan(0.85);
      link.waits.sort((a, b) => a - b);
      expect(link.waits[Math.floor(link.waits.length * 0.95)]).toBeLessThan(20);
    },
  );

  it("never leaves its bounds, and takes the rate of a slow program for no sign of a slow link", () => {
    let now = 0;
    const window = new DelayWindow(() => now);
    let offset = 0;
    const round = (delayMs: number, limited: boolean) => {
      offset += window.size;
      window.sent(offset);
      now += delayMs;
      window.acknowledged(offset, window.size, limited);
    };
    for (let count = 0; count < 20; count += 1) round(1, true);
    expect(window.size).toBe(STREAM_WINDOW_BYTES);
    for (let count = 0; count < 20; count += 1) round(400, false);
    expect(window.size).toBe(STREAM_WINDOW_BYTES);
    for (let count = 0; count < 400; count += 1) round(60_000, true);
    expect(window.size).toBeGreaterThanOrEqual(MIN_WINDOW_BYTES);
  });

  it("is not taken in by the jitter of a busy machine", () => {
    let now = 0;
    const window = new DelayWindow(() => now);
    let sent = 0;
    let acknowledged = 0;
    let seed = 1;
    const random = () => {
      seed = (seed * 16_807) % 2_147_483_647;
      return seed / 2_147_483_647;
    };
    const flying: { offset: number; due: number }[] = [];
    let delivered = 0;
    let linkFree = 0;
    while (now < 5000) {
      while (sent - acknowledged < window.size) {
        sent += FRAME_BYTES;
        window.sent(sent);
        linkFree = Math.max(linkFree, now) + FRAME_BYTES / 100_000;
        const last = flying.at(-1)?.due ?? 0;
        flying.push({ offset: sent, due: Math.max(last, linkFree + 30 + random() * 25) });
      }
      const { offset, due } = flying.shift()!;
      now = due;
      if (now > 2000) delivered += offset - acknowledged;
      window.acknowledged(offset, offset - acknowledged, true);
      acknowledged = offset;
    }
    // A window of 2 MiB and 55 ms at the most would give 38 MB/s.
    expect(delivered / 3000 / 1000).toBeGreaterThan(20);
  });
});

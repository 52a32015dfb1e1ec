import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { StreamId } from "../../src/wire/frame.ts";
import { MAX_DATA_BYTES, STREAM_WINDOW_BYTES } from "../../src/wire/limits.ts";
import { IncomingStream, OutgoingStream } from "../../src/wire/streams.ts";
import { Direction, toReceiver, toSender } from "./link.ts";

/** A prime length, so that no offset error of a power of two goes unnoticed. */
const PATTERN = randomBytes(1_048_573);

type Step =
  | { do: "write"; bytes: number }
  | { do: "deliver" | "answer"; frames: number }
  | { do: "consume"; share: number }
  /** The link breaks: of each direction so many frames still arrive, and of the next data frame some bytes. */
  | { do: "cut"; frames: number; answers: number; part: number }
  | { do: "connect" | "finish" | "refuse" };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant("write" as const),
      bytes: fc.oneof(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: 3 * MAX_DATA_BYTES })),
    }),
  },
  { weight: 6, arbitrary: fc.record({ do: fc.constant("deliver" as const), frames: fc.integer({ min: 1, max: 12 }) }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constant("answer" as const), frames: fc.integer({ min: 1, max: 6 }) }) },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant("consume" as const), share: fc.double({ min: 0, max: 1, noNaN: true }) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("cut" as const),
      frames: fc.nat(6),
      answers: fc.nat(3),
      part: fc.nat(MAX_DATA_BYTES),
    }),
  },
  { weight: 3, arbitrary: fc.constant({ do: "connect" as const }) },
);
const steps = (extra: Step[]) =>
  fc
    .tuple(fc.array(step, { minLength: 20, maxLength: 120 }), fc.array(fc.nat(119), { maxLength: extra.length }))
    .map(([list, places]) => places.reduce((all, at, index) => all.toSpliced(at, 0, extra[index]!), list));

/** Both halves of a stream, the link between them, and what an application on either side sees. */
class Model {
  readonly sender = new OutgoingStream(StreamId.Stdout);
  readonly receiver = new IncomingStream(StreamId.Stdout);
  #forth: Direction | undefined;
  #back: Direction | undefined;
  written = 0;
  delivered = 0;
  unconsumed = 0;
  settled = 0;
  refusals = 0;

  constructor() {
    this.sender.onSettled = () => {
      this.settled += 1;
    };
    this.sender.onRefused = () => {
      this.refusals += 1;
    };
  }

  get connected(): boolean {
    return this.#forth !== undefined;
  }

  apply(step: Step): void {
    switch (step.do) {
      case "write":
        // An owner pauses its producer when the stream is full; what it holds by then may be of any size.
        if (!this.sender.full && !this.sender.finished) this.write(step.bytes);
        break;
      case "deliver":
        this.deliver(step.frames);
        break;
      case "answer":
        this.answer(step.frames);
        break;
      case "consume":
        this.consume(Math.ceil(this.unconsumed * step.share));
        break;
      case "cut":
        this.deliver(step.frames, step.part);
        this.answer(step.answers);
        this.#forth = undefined;
        this.#back = undefined;
        this.sender.detach();
        this.receiver.detach();
        break;
      case "connect":
        this.connect();
        break;
      case "finish":
        this.sender.finish();
        break;
      case "refuse":
        this.receiver.refuse();
        this.unconsumed = 0;
        break;
    }
    this.check();
  }

  /** The receiver says what it has, then speaks over the new link; the sender goes on when it hears of it. */
  connect(): void {
    if (this.connected) return;
    this.#forth = new Direction();
    this.#back = new Direction();
    this.#back.queue.push({ kind: "received", offset: this.receiver.received });
    this.receiver.attach(this.#back);
  }

  write(length: number): void {
    const bytes = Buffer.alloc(length);
    for (let at = 0; at < length; ) {
      at += PATTERN.copy(bytes, at, (this.written + at) % PATTERN.length);
    }
    this.sender.write(bytes);
    this.written += length;
  }

  /** @param part bytes of the data frame behind the last whole one that arrive as well */
  deliver(frames: number, part = 0): void {
    for (let count = 0; count < frames && this.#forth !== undefined; count += 1) {
      const frame = this.#forth.queue.shift();
      if (frame !== undefined) this.#take(toReceiver(this.receiver, frame));
    }
    const next = this.#forth?.queue[0];
    if (part > 0 && next?.kind === "data") this.#take(toReceiver(this.receiver, next, part));
  }

  answer(frames: number): void {
    for (let count = 0; count < frames && this.#back !== undefined; count += 1) {
      const frame = this.#back.queue.shift();
      if (frame !== undefined) toSender(this.sender, this.#forth!, frame);
    }
  }

  consume(count: number): void {
    this.unconsumed -= count;
    this.receiver.consume(count);
  }

  #take(bytes: Buffer | undefined): void {
    if (bytes === undefined) return;
    for (let at = 0; at < bytes.length; ) {
      const from = (this.delivered + at) % PATTERN.length;
      const length = Math.min(bytes.length - at, PATTERN.length - from);
      if (!bytes.subarray(at, at + length).equals(PATTERN.subarray(from, from + length)))
        throw new Error(`wrong bytes at ${this.delivered + at}`);
      at += length;
    }
    this.delivered += bytes.length;
    this.unconsumed += bytes.length;
  }

  check(): void {
    if (this.delivered > this.written) throw new Error("more was delivered than written");
    if (this.unconsumed >= STREAM_WINDOW_BYTES + MAX_DATA_BYTES) throw new Error("the receiver holds too much");
    const inFlight = this.#forth?.queue.reduce(
      (sum, frame) => sum + (frame.kind === "data" ? frame.bytes.length : 0),
      0,
    );
    if (inFlight !== undefined && inFlight >= STREAM_WINDOW_BYTES + MAX_DATA_BYTES)
      throw new Error("too much in flight");
    if (this.settled > 1) throw new Error("settled twice");
    if (this.refusals > 1) throw new Error("refused twice");
  }

  /** Runs the link without losses, with an application that takes everything, until nothing changes any more. */
  drain(): void {
    this.connect();
    for (let round = 0; round < 1000; round += 1) {
      const before = JSON.stringify([this.delivered, this.#forth!.queue.length, this.#back!.queue.length]);
      this.deliver(this.#forth!.queue.length);
      this.consume(this.unconsumed);
      this.answer(this.#back!.queue.length);
      this.check();
      if (before === JSON.stringify([this.delivered, this.#forth!.queue.length, this.#back!.queue.length])) return;
    }
    throw new Error("it never comes to rest");
  }
}

describe("a stream over a link that breaks", () => {
  it("delivers every byte once and in order, keeps to its window, and ends once", () => {
    fc.assert(
      fc.property(steps([{ do: "finish" }]), (list) => {
        const model = new Model();
        for (const step of list) model.apply(step);
        model.sender.finish();
        model.drain();
        expect(model.delivered).toBe(model.written);
        expect(model.receiver).toMatchObject({ received: model.written, complete: true, drained: true });
        expect(model.sender).toMatchObject({ unacknowledged: 0, full: false, finished: true, settled: true });
        expect(model.settled).toBe(1);
        expect(model.refusals).toBe(0);
      }),
      { numRuns: 400 },
    );
  });

  it("comes to rest on both sides when the receiver refuses it at any time", () => {
    fc.assert(
      fc.property(steps([{ do: "refuse" }, { do: "finish" }]), (list) => {
        const model = new Model();
        for (const step of list) model.apply(step);
        model.apply({ do: "refuse" });
        model.drain();
        expect(model.sender).toMatchObject({ refused: true, unacknowledged: 0, full: false });
        expect(model.refusals).toBe(1);
        model.sender.finish();
        model.drain();
        expect(model.sender.settled).toBe(true);
        expect(model.receiver).toMatchObject({ refused: true, complete: true, drained: true });
        expect(model.settled).toBe(1);
      }),
      { numRuns: 400 },
    );
  });

  it("gives a full sender its credit back after a break, whatever acknowledgements were lost", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 20 }), fc.boolean(), (answered, consumed) => {
        const model = new Model();
        model.connect();
        model.answer(1);
        while (!model.sender.full) model.write(MAX_DATA_BYTES);
        model.deliver(100);
        if (consumed) model.consume(model.unconsumed);
        model.apply({ do: "cut", frames: 0, answers: answered, part: 0 });
        model.drain();
        expect(model.sender.full).toBe(false);
        model.write(MAX_DATA_BYTES);
        model.drain();
        expect(model.delivered).toBe(model.written);
      }),
    );
  });

  it("gives no credit by reconnecting while the receiver consumes nothing", () => {
    const model = new Model();
    for (let round = 0; round < 5; round += 1) {
      model.connect();
      model.answer(10);
      for (let writes = 0; writes < 100; writes += 1) model.apply({ do: "write", bytes: MAX_DATA_BYTES });
      model.apply({ do: "deliver", frames: 1000 });
      model.apply({ do: "cut", frames: 0, answers: 10, part: 0 });
    }
    expect(model.unconsumed).toBe(STREAM_WINDOW_BYTES);
    expect(model.sender).toMatchObject({ full: true, unacknowledged: STREAM_WINDOW_BYTES });
    model.sender.finish();
    model.drain();
    expect(model.delivered).toBe(model.written);
  });
});

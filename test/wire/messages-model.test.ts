import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { FrameType } from "../../src/wire/frame.ts";
import { MESSAGE_WINDOW } from "../../src/wire/limits.ts";
import { IncomingMessages, OutgoingMessages } from "../../src/wire/streams.ts";
import { Direction } from "./link.ts";

type Step =
  | { do: "push"; count: number }
  | { do: "deliver" | "answer"; frames: number }
  | { do: "cut"; frames: number; answers: number }
  | { do: "connect" };

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 5, arbitrary: fc.record({ do: fc.constant("push" as const), count: fc.integer({ min: 1, max: 80 }) }) },
  {
    weight: 5,
    arbitrary: fc.record({ do: fc.constant("deliver" as const), frames: fc.integer({ min: 1, max: 100 }) }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("answer" as const), frames: fc.integer({ min: 1, max: 50 }) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("cut" as const), frames: fc.nat(9), answers: fc.nat(9) }) },
  { weight: 3, arbitrary: fc.constant({ do: "connect" as const }) },
);

class Model {
  readonly sender = new OutgoingMessages<number>(FrameType.Event);
  readonly receiver = new IncomingMessages();
  #forth: Direction | undefined;
  /** What the receiver says: first where it is, then acknowledgements. */
  #back: ({ resume: number } | { acknowledge: number })[] = [];
  pushed = 0;
  readonly delivered: number[] = [];

  apply(step: Step): void {
    switch (step.do) {
      case "push":
        for (let count = 0; count < step.count; count += 1) {
          this.pushed += 1;
          this.sender.push(this.pushed);
        }
        break;
      case "deliver":
        this.deliver(step.frames);
        break;
      case "answer":
        this.answer(step.frames);
        break;
      case "cut":
        this.deliver(step.frames);
        this.answer(step.answers);
        this.#forth = undefined;
        this.#back = [];
        this.sender.detach();
        break;
      case "connect":
        if (this.#forth !== undefined) break;
        this.#forth = new Direction();
        this.#back.push({ resume: this.receiver.lastSeq });
        break;
    }
    const inFlight = this.#forth?.queue.length ?? 0;
    if (inFlight > MESSAGE_WINDOW) throw new Error(`${inFlight} messages in flight`);
  }

  deliver(frames: number): void {
    for (let count = 0; count < frames; count += 1) {
      const frame = this.#forth?.queue.shift();
      if (frame?.kind !== "json") return;
      const { seq, body } = frame.value as { seq: number; body: number };
      if (this.receiver.accept(seq)) this.delivered.push(body);
      this.#back.push({ acknowledge: seq });
    }
  }

  answer(frames: number): void {
    for (const word of this.#back.splice(0, frames)) {
      if ("resume" in word) this.sender.attach(this.#forth!, word.resume);
      else this.sender.acknowledge(word.acknowledge);
    }
  }
}

describe("numbered messages over a link that breaks", () => {
  it("arrive once each and in order, no more than a window at a time", () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 10, maxLength: 80 }), (list) => {
        const model = new Model();
        for (const step of list) model.apply(step);
        model.apply({ do: "connect" });
        for (let round = 0; !model.sender.settled && round < 1000; round += 1) {
          model.answer(1000);
          model.deliver(1000);
        }
        expect(model.delivered).toEqual(Array.from({ length: model.pushed }, (_, index) => index + 1));
        expect(model.sender.settled).toBe(true);
        expect(model.receiver.lastSeq).toBe(model.pushed);
      }),
      { numRuns: 300 },
    );
  });

  it("wait behind a window of unacknowledged ones", () => {
    const link = new Direction();
    const sender = new OutgoingMessages<number>(FrameType.Control);
    sender.attach(link, 0);
    for (let count = 0; count < MESSAGE_WINDOW + 10; count += 1) sender.push(count);
    expect(link.queue).toHaveLength(MESSAGE_WINDOW);
    expect(sender.unacknowledged).toBe(MESSAGE_WINDOW + 10);
    sender.acknowledge(3);
    expect(link.queue).toHaveLength(MESSAGE_WINDOW + 3);
    expect(link.queue.at(-1)).toEqual({
      kind: "json",
      type: FrameType.Control,
      value: { seq: MESSAGE_WINDOW + 3, body: MESSAGE_WINDOW + 2 },
    });
  });

  it("tell their owner of every acknowledgement, also of one that comes with a reconnect", () => {
    const sender = new OutgoingMessages<string>(FrameType.Event);
    let told = 0;
    sender.onAcknowledged = () => {
      told += 1;
    };
    sender.push("started");
    sender.attach(new Direction(), 0);
    expect(sender.settled).toBe(false);
    sender.detach();
    sender.attach(new Direction(), 1);
    expect(sender.settled).toBe(true);
    expect(told).toBe(2);
  });

  it("are refused when they were never sent, or leave a gap", () => {
    const sender = new OutgoingMessages<string>(FrameType.Event);
    sender.push("started");
    expect(() => sender.acknowledge(1)).toThrow(/message 1 is acknowledged, but only 0 were sent/);
    expect(() => sender.attach(new Direction(), 2)).toThrow(/wanted after 2, but there are only 1/);
    sender.attach(new Direction(), 0);
    expect(() => sender.acknowledge(2)).toThrow(/but only 1 were sent/);
    const receiver = new IncomingMessages();
    expect(receiver.accept(1)).toBe(true);
    expect(receiver.accept(1)).toBe(false);
    expect(receiver.accept(0)).toBe(false);
    expect(() => receiver.accept(3)).toThrow(/message 3 follows message 1/);
    expect(receiver.accept(2)).toBe(true);
  });
});

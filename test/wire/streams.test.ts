import { describe, expect, it } from "vitest";
import { FrameType, StreamId } from "../../src/wire/frame.ts";
import { KeptBytes } from "../../src/wire/kept-bytes.ts";
import { ACKNOWLEDGE_STEP_BYTES, MAX_DATA_BYTES, STREAM_WINDOW_BYTES } from "../../src/wire/limits.ts";
import { IncomingStream, OutgoingStream } from "../../src/wire/streams.ts";
import { heldMemory } from "../support/memory.ts";
import { Direction } from "./link.ts";

function sending(received = 0): { stream: OutgoingStream; link: Direction } {
  const stream = new OutgoingStream(StreamId.Stdout);
  const link = new Direction();
  stream.attach(link, received);
  return { stream, link };
}

function receiving(): { stream: IncomingStream; link: Direction } {
  const stream = new IncomingStream(StreamId.Stdin);
  const link = new Direction();
  stream.attach(link);
  return { stream, link };
}

const bytesIn = (link: Direction) =>
  link.queue.reduce((sum, frame) => sum + (frame.kind === "data" ? frame.bytes.length : 0), 0);

describe("the sending half of a stream", () => {
  it("cuts into data frames and sends nothing for nothing", () => {
    const { stream, link } = sending();
    stream.write(Buffer.alloc(0));
    expect(link.queue).toEqual([]);
    stream.write(Buffer.alloc(2 * MAX_DATA_BYTES + 1));
    expect(link.queue.map((frame) => frame.kind === "data" && [frame.offset, frame.bytes.length])).toEqual([
      [0, MAX_DATA_BYTES],
      [MAX_DATA_BYTES, MAX_DATA_BYTES],
      [2 * MAX_DATA_BYTES, 1],
    ]);
  });

  it("keeps back what the window has no room for, however much is written at once", () => {
    const { stream, link } = sending();
    stream.write(Buffer.alloc(5 * STREAM_WINDOW_BYTES));
    expect(bytesIn(link)).toBe(STREAM_WINDOW_BYTES);
    expect(stream.full).toBe(true);
    stream.acknowledge(MAX_DATA_BYTES);
    expect(bytesIn(link)).toBe(STREAM_WINDOW_BYTES + MAX_DATA_BYTES);
    stream.finish();
    expect(link.queue.some((frame) => frame.kind === "mark")).toBe(false);
    for (let round = 0; round < 10; round += 1) stream.acknowledge(bytesIn(link));
    expect(bytesIn(link)).toBe(5 * STREAM_WINDOW_BYTES);
    expect(link.queue.at(-1)).toEqual({ kind: "mark", type: FrameType.End, offset: 5 * STREAM_WINDOW_BYTES });
  });

  it("tells once when it can be written again", () => {
    const { stream } = sending();
    let writable = 0;
    stream.onWritable = () => {
      writable += 1;
    };
    stream.write(Buffer.alloc(STREAM_WINDOW_BYTES));
    expect(stream.full).toBe(true);
    stream.acknowledge(1);
    stream.acknowledge(2);
    expect(writable).toBe(1);
    expect(stream.full).toBe(false);
  });

  it("tells its owner to go on when the other side refuses it while it is full", () => {
    const { stream } = sending();
    const told: string[] = [];
    stream.onWritable = () => told.push("writable");
    stream.onRefused = () => told.push("refused");
    stream.onSettled = () => told.push("settled");
    stream.write(Buffer.alloc(STREAM_WINDOW_BYTES));
    stream.refuse();
    stream.refuse();
    expect(told).toEqual(["refused", "writable"]);
    stream.write(Buffer.alloc(10));
    expect(stream).toMatchObject({ unacknowledged: 0, settled: false });
    stream.finish();
    stream.finish();
    expect(told).toEqual(["refused", "writable", "settled"]);
  });

  it("settles once, with the last acknowledgement", () => {
    const { stream } = sending();
    let settled = 0;
    stream.onSettled = () => {
      settled += 1;
    };
    stream.write(Buffer.from("abc"));
    stream.acknowledge(3);
    expect(settled).toBe(0);
    stream.finish();
    stream.acknowledge(3);
    stream.refuse();
    expect(settled).toBe(1);
  });

  it("refuses acknowledgements of what was not sent, and offsets that cannot be sent", () => {
    const { stream } = sending();
    stream.write(Buffer.alloc(2 * STREAM_WINDOW_BYTES));
    violates(() => stream.acknowledge(STREAM_WINDOW_BYTES + 1), /acknowledged up to \d+, but only \d+ bytes were sent/);
    stream.acknowledge(100);
    violates(() => stream.attach(new Direction(), 99), /wanted from 99, but only 100 to \d+ can be sent/);
    violates(() => stream.attach(new Direction(), 2 * STREAM_WINDOW_BYTES + 1), /can be sent/);
    stream.attach(new Direction(), 100);
  });

  it("keeps single bytes for about what they are worth", () => {
    const stream = new OutgoingStream(StreamId.Stdout);
    const before = heldMemory();
    for (let count = 0; count < STREAM_WINDOW_BYTES; count += 1) stream.write(Buffer.alloc(1, count));
    expect(stream.full).toBe(true);
    expect(heldMemory() - before).toBeLessThan(2 * STREAM_WINDOW_BYTES);
    const link = new Direction();
    stream.attach(link, 0);
    expect(link.queue.length).toBeLessThan(1000);
    const sent = Buffer.concat(link.queue.map((frame) => (frame.kind === "data" ? frame.bytes : Buffer.alloc(0))));
    expect(sent.equals(Buffer.from(Array.from({ length: STREAM_WINDOW_BYTES }, (_, at) => at & 255)))).toBe(true);
  });

  it("sends small writes at once, each as it was", () => {
    const { stream, link } = sending();
    for (const text of ["a", "bc", "d"]) stream.write(Buffer.from(text));
    expect(link.queue.map((frame) => frame.kind === "data" && frame.bytes.toString())).toEqual(["a", "bc", "d"]);
    stream.acknowledge(2);
    const second = new Direction();
    stream.attach(second, 2);
    stream.write(Buffer.from("e"));
    expect(second.queue.map((frame) => frame.kind === "data" && [frame.offset, frame.bytes.toString()])).toEqual([
      [2, "cd"],
      [4, "e"],
    ]);
  });
});

describe("kept bytes", () => {
  it("drop from the front in the middle of gathered and of large writes", () => {
    const kept = new KeptBytes();
    kept.append(Buffer.from("abc"));
    kept.append(Buffer.alloc(4000, "x"));
    kept.append(Buffer.from("de"));
    kept.append(Buffer.from("f"));
    expect([kept.start, kept.end, kept.length]).toEqual([0, 4006, 4006]);
    expect(kept.from(1).toString()).toBe("bc");
    kept.dropBefore(2);
    expect(kept.from(2).toString()).toBe("c");
    kept.dropBefore(1003);
    expect(kept.from(1003)).toHaveLength(3000);
    expect(kept.from(4003).toString()).toBe("def");
    kept.dropBefore(4004);
    kept.append(Buffer.from("g"));
    expect(kept.from(4004).toString()).toBe("efg");
    expect(kept.from(4007)).toHaveLength(0);
    kept.dropBefore(4007);
    kept.append(Buffer.from("h"));
    expect(kept.from(4007).toString()).toBe("h");
    expect(kept.length).toBe(1);
  });
});

describe("the receiving half of a stream", () => {
  it("takes fresh bytes only, also from the middle of a repeated frame", () => {
    const { stream } = receiving();
    expect(stream.accept(0, Buffer.from("abc"))?.toString()).toBe("abc");
    expect(stream.accept(0, Buffer.from("abc"))).toBeUndefined();
    expect(stream.accept(1, Buffer.from("bcde"))?.toString()).toBe("de");
    expect(stream.received).toBe(5);
  });

  it("refuses a gap, bytes after the end, an end elsewhere, and more than a window", () => {
    const { stream } = receiving();
    violates(() => stream.accept(1, Buffer.from("x")), /jumps from 0 to 1/);
    stream.accept(0, Buffer.from("abc"));
    violates(() => stream.end(2), /ends at 2, but 3 bytes have arrived/);
    violates(() => stream.end(4), /ends at 4, but 3 bytes have arrived/);
    stream.end(3);
    stream.end(3);
    violates(() => stream.end(4), /ends at 4/);
    violates(() => stream.accept(3, Buffer.from("x")), /goes on after its end/);
    expect(stream.accept(0, Buffer.from("abc"))).toBeUndefined();

    const { stream: flooded } = receiving();
    const frame = Buffer.alloc(MAX_DATA_BYTES);
    const allowed = STREAM_WINDOW_BYTES / MAX_DATA_BYTES + 1;
    for (let count = 0; count < allowed; count += 1) flooded.accept(count * MAX_DATA_BYTES, frame);
    violates(() => flooded.accept(allowed * MAX_DATA_BYTES, frame), /more than a window/);
  });

  it("acknowledges in steps, and at once what ends the stream", () => {
    const { stream, link } = receiving();
    stream.accept(0, Buffer.alloc(ACKNOWLEDGE_STEP_BYTES + 5));
    stream.consume(ACKNOWLEDGE_STEP_BYTES - 1);
    expect(link.queue).toEqual([]);
    stream.consume(1);
    stream.consume(4);
    expect(link.queue).toEqual([{ kind: "mark", type: FrameType.Acknowledge, offset: ACKNOWLEDGE_STEP_BYTES }]);
    stream.end(ACKNOWLEDGE_STEP_BYTES + 5);
    expect(stream).toMatchObject({ complete: true, drained: false });
    stream.consume(1);
    expect(stream.drained).toBe(true);
    expect(link.queue.at(-1)).toEqual({
      kind: "mark",
      type: FrameType.Acknowledge,
      offset: ACKNOWLEDGE_STEP_BYTES + 5,
    });
  });

  it("repeats over a new connection what it has consumed, or that it refuses", () => {
    const { stream } = receiving();
    stream.accept(0, Buffer.from("abc"));
    stream.detach();
    stream.consume(2);
    const second = new Direction();
    stream.attach(second);
    expect(second.queue).toEqual([{ kind: "mark", type: FrameType.Acknowledge, offset: 2 }]);
    stream.detach();
    stream.refuse();
    const third = new Direction();
    stream.attach(third);
    stream.refuse();
    expect(third.queue).toEqual([{ kind: "mark", type: FrameType.Refuse, offset: 3 }]);
  });

  it("drops what arrives after a refusal, and ends with whatever the sender gave up", () => {
    const { stream, link } = receiving();
    stream.accept(0, Buffer.from("abc"));
    stream.refuse();
    expect(stream.accept(3, Buffer.alloc(10))).toBeUndefined();
    for (let count = 0; count < 40; count += 1)
      stream.accept(13 + count * MAX_DATA_BYTES, Buffer.alloc(MAX_DATA_BYTES));
    stream.end(100 * MAX_DATA_BYTES);
    expect(stream).toMatchObject({ refused: true, complete: true, drained: true });
    expect(link.queue).toEqual([{ kind: "mark", type: FrameType.Refuse, offset: 3 }]);
  });
});

function violates(action: () => unknown, message: RegExp): void {
  expect(action).toThrow(expect.objectContaining({ code: "wire-violation", message: expect.stringMatching(message) }));
}

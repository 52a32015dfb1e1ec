import fc from "fast-check";
import {
  encodeDataHeader,
  encodeJsonFrame,
  encodeMarkFrame,
  type FrameHandler,
  FrameType,
  type JsonFrameType,
  type MarkFrameType,
  PREAMBLE,
  StreamId,
} from "../../src/wire/frame.ts";
import { MAX_DATA_BYTES } from "../../src/wire/limits.ts";

/** Frames for the tests of the decoder: arbitrary ones, their bytes, and a handler that writes down what it gets. */

export type Frame =
  | { kind: "json"; type: JsonFrameType; value: unknown }
  | { kind: "data"; stream: StreamId; offset: number; bytes: Buffer }
  | { kind: "mark"; type: MarkFrameType; stream: StreamId; offset: number };

export const JSON_TYPES: JsonFrameType[] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
export const MARK_TYPES: MarkFrameType[] = [FrameType.Acknowledge, FrameType.End, FrameType.Refuse];
export const STREAMS: StreamId[] = [StreamId.Stdin, StreamId.Stdout, StreamId.Stderr, StreamId.Upload];

const offset = fc.oneof(
  fc.nat(),
  fc.constantFrom(0, 2 ** 32 - 1, 2 ** 32, 2 ** 32 + 1, 2 ** 53 - 2 ** 18),
  fc.maxSafeNat(),
);
/** Values whose text fits into the smallest JSON frame, 64 bytes. */
const smallJson = fc.jsonValue().filter((value) => {
  const length = Buffer.byteLength(JSON.stringify(value));
  return length >= 2 && length <= 64;
});
const stream = fc.constantFrom(...STREAMS);
const LARGEST_DATA = new Uint8Array(MAX_DATA_BYTES).fill(7);

export const anyFrame: fc.Arbitrary<Frame> = fc.oneof(
  fc.record({ kind: fc.constant("json" as const), type: fc.constantFrom(...JSON_TYPES), value: smallJson }),
  fc.record({
    kind: fc.constant("data" as const),
    stream,
    offset: offset.map((value) => Math.min(value, 2 ** 53 - 2 ** 18)),
    bytes: fc
      .oneof({ weight: 20, arbitrary: fc.uint8Array({ minLength: 1, maxLength: 300 }) }, fc.constant(LARGEST_DATA))
      .map((bytes) => Buffer.from(bytes)),
  }),
  fc.record({ kind: fc.constant("mark" as const), type: fc.constantFrom(...MARK_TYPES), stream, offset }),
);

export function bytesOf(frame: Frame): Buffer {
  switch (frame.kind) {
    case "json":
      return encodeJsonFrame(frame.type, frame.value);
    case "data":
      return Buffer.concat([encodeDataHeader(frame.stream, frame.offset, frame.bytes.length), frame.bytes]);
    case "mark":
      return encodeMarkFrame(frame.type, frame.stream, frame.offset);
  }
}

export function streamOf(frames: readonly Frame[]): Buffer {
  return Buffer.concat([PREAMBLE, ...frames.map(bytesOf)]);
}

/** Writes down what a decoder delivers, with the parts of one data frame joined again. */
export class Recorder implements FrameHandler {
  readonly frames: Frame[] = [];

  json(type: JsonFrameType, value: unknown): void {
    this.frames.push({ kind: "json", type, value });
  }

  data(stream: StreamId, offset: number, chunk: Buffer): void {
    this.frames.push({ kind: "data", stream, offset, bytes: Buffer.from(chunk) });
  }

  mark(type: MarkFrameType, stream: StreamId, offset: number): void {
    this.frames.push({ kind: "mark", type, stream, offset });
  }
}

/** Joins neighbouring data frames that continue each other, as the parts of one frame do. */
export function joined(frames: readonly Frame[]): Frame[] {
  const result: Frame[] = [];
  for (const frame of frames) {
    const last = result.at(-1);
    if (
      frame.kind === "data" &&
      last?.kind === "data" &&
      last.stream === frame.stream &&
      last.offset + last.bytes.length === frame.offset
    ) {
      last.bytes = Buffer.concat([last.bytes, frame.bytes]);
    } else {
      result.push(frame.kind === "data" ? { ...frame } : frame);
    }
  }
  return result;
}

/** `whole` in pieces; the cuts are fractions of its length. */
export function pieces(whole: Buffer, cuts: readonly number[]): Buffer[] {
  const places = [0, ...cuts.map((cut) => Math.round(cut * whole.length)).sort((a, b) => a - b), whole.length];
  return places.slice(1).map((end, index) => whole.subarray(places[index], end));
}

export function header(length: number, type: number): Buffer {
  const bytes = Buffer.alloc(5);
  bytes.writeUInt32BE(length, 0);
  bytes[4] = type;
  return bytes;
}

export function streamHeader(type: number, stream: number, high: number, low: number, length = 9): Buffer {
  const bytes = Buffer.alloc(14);
  header(length, type).copy(bytes);
  bytes[5] = stream;
  bytes.writeUInt32BE(high, 6);
  bytes.writeUInt32BE(low, 10);
  return bytes;
}

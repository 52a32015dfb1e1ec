import { randomBytes } from "node:crypto";
import { PassThrough } from "node:stream";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { WireConnection } from "../../src/wire/connection.ts";
import { RuntimeError } from "../../src/wire/errors.ts";
import { encodeJsonFrame, FrameDecoder, FrameType } from "../../src/wire/frame.ts";
import { CLIENT_SIDE } from "../../src/wire/from-agent.ts";
import { AGENT_SIDE } from "../../src/wire/from-client.ts";
import { anyFrame, bytesOf, pieces, Recorder, streamOf } from "./frames.ts";
import { SAMPLES } from "./samples.ts";

/** Milliseconds that each fuzzer runs. */
const BUDGET_MS = 1200;
/** Longest time that one mutated stream may take, in ms; a hang would be without end. */
const HANG_MS = 2000;

const valid = fc.oneof(
  fc.array(anyFrame, { minLength: 1, maxLength: 6 }).map(streamOf),
  fc
    .array(fc.constantFrom(...SAMPLES), { minLength: 1, maxLength: 6 })
    .map((samples) => Buffer.concat([streamOf([]), ...samples.map(({ type, value }) => encodeJsonFrame(type, value))])),
);

/** What happens to a stream; `at` is taken modulo its length. */
type Change = (bytes: Buffer, at: number) => Buffer;

const change: fc.Arbitrary<Change> = fc.oneof(
  fc.nat(255).map((value) => replacing(Buffer.of(value))),
  // Numbers at their edges, where a length may stand.
  fc.constantFrom(0, 1, 8, 9, 10, 64, 0x7fff_ffff, 0xffff_ffff, 8 * 1024 * 1024, 131_081, 131_082).map((value) => {
    const number = Buffer.alloc(4);
    number.writeUInt32BE(value);
    return replacing(number);
  }),
  fc.uint8Array({ maxLength: 40 }).map((bytes) => inserting(() => bytes)),
  anyFrame.map((frame) => inserting(() => bytesOf(frame))),
  fc.integer({ min: 1, max: 40 }).map((count) => inserting((bytes, at) => bytes.subarray(at, at + count))),
  fc
    .integer({ min: 1, max: 40 })
    .map((count) => (bytes: Buffer, at: number) => Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + count)])),
);

function replacing(by: Buffer): Change {
  return (bytes, at) => Buffer.concat([bytes.subarray(0, at), by, bytes.subarray(at + by.length)]);
}

function inserting(what: (bytes: Buffer, at: number) => Uint8Array): Change {
  return (bytes, at) => Buffer.concat([bytes.subarray(0, at), what(bytes, at), bytes.subarray(at)]);
}

const fractions = (most: number) => fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: most });

const mutated = fc
  .tuple(valid, fc.array(fc.tuple(change, fc.nat()), { maxLength: 6 }), fractions(6))
  .map(([stream, changes, cuts]) => {
    const bytes = changes.reduce(
      (current, [apply, place]) => apply(current, current.length === 0 ? 0 : place % current.length),
      stream,
    );
    return pieces(bytes, cuts);
  });

/** Another seed at each run; fast-check prints it, and the shortest input, when a run fails. */
const seed = randomBytes(4).readInt32BE();
const budget = { seed, numRuns: 1_000_000, interruptAfterTimeLimit: BUDGET_MS, markInterruptAsFailure: false };

describe(`mutations of valid streams (seed ${seed})`, () => {
  it("end in frames or in one wire-violation, and in nothing else", () => {
    let runs = 0;
    fc.assert(
      fc.property(mutated, (chunks) => {
        runs += 1;
        const recorder = new Recorder();
        const decoder = new FrameDecoder(recorder);
        const begin = performance.now();
        try {
          for (const chunk of chunks) decoder.push(chunk);
        } catch (error) {
          if (!(error instanceof RuntimeError) || error.code !== "wire-violation") throw error;
        }
        if (performance.now() - begin > HANG_MS) throw new Error("it hung");
        const delivered = recorder.frames.reduce(
          (sum, frame) => sum + (frame.kind === "data" ? frame.bytes.length : 0),
          0,
        );
        if (delivered > chunks.reduce((sum, chunk) => sum + chunk.length, 0)) throw new Error("it invented bytes");
      }),
      budget,
    );
    expect(runs).toBeGreaterThan(100);
  });

  it("close a connection of either side at most once, and its handler sees only what its schemas allow", () => {
    let runs = 0;
    fc.assert(
      fc.property(mutated, fc.boolean(), (chunks, isAgent) => {
        runs += 1;
        const reasons: (RuntimeError | undefined)[] = [];
        const handler = {
          onJson: (frame: { type: FrameType }) => {
            if (!((isAgent ? AGENT_SIDE : CLIENT_SIDE).accepts as Record<number, unknown>)[frame.type])
              throw new TypeError(`${FrameType[frame.type]} came through`);
          },
          onData: () => {},
          onMark: () => {},
          onClose: (reason: RuntimeError | undefined) => reasons.push(reason),
        };
        const socket = new PassThrough();
        socket.resume();
        const connection = isAgent
          ? new WireConnection(socket, AGENT_SIDE, handler)
          : new WireConnection(socket, CLIENT_SIDE, handler);
        connection.start();
        for (const chunk of chunks) socket.emit("data", chunk);
        if (reasons.length > 1) throw new Error("closed twice");
        if (reasons.some((reason) => reason?.message.startsWith("Internal error"))) throw reasons[0];
        connection.destroy();
      }),
      budget,
    );
    expect(runs).toBeGreaterThan(100);
  });
});

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { RuntimeError } from "../../src/wire/errors.ts";
import {
  encodeJsonFrame,
  encodeLink,
  encodeMarkFrame,
  FrameDecoder,
  FrameType,
  PREAMBLE,
  StreamId,
} from "../../src/wire/frame.ts";
import { MAX_DATA_BYTES } from "../../src/wire/limits.ts";
import {
  anyFrame,
  type Frame,
  header,
  JSON_TYPES,
  joined,
  MARK_TYPES,
  pieces,
  Recorder,
  streamHeader,
  streamOf,
} from "./frames.ts";

const cuts = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 40 });

/** Longest payloads of docs/wire-protocol.md, in bytes. */
const LONGEST: Record<number, number> = {
  [FrameType.Request]: 8 * 1024 * 1024,
  [FrameType.Response]: 1024 * 1024,
  [FrameType.Progress]: 4096,
  [FrameType.Need]: 256 * 1024,
  [FrameType.Supply]: 8 * 1024 * 1024,
  [FrameType.Event]: 64 * 1024,
  [FrameType.EventAcknowledge]: 64,
  [FrameType.Control]: 4096,
  [FrameType.ControlAcknowledge]: 64,
  [FrameType.Fatal]: 64 * 1024,
};

describe("the frame decoder", () => {
  it("returns what was encoded, however the bytes are cut", () => {
    fc.assert(
      fc.property(fc.array(anyFrame, { maxLength: 8 }), cuts, (frames, places) => {
        const recorder = new Recorder();
        const decoder = new FrameDecoder(recorder);
        for (const piece of pieces(streamOf(frames), places)) decoder.push(piece);
        expect(readable(joined(recorder.frames))).toEqual(readable(joined(frames)));
      }),
      { numRuns: 300 },
    );
  });

  it("returns the same when every byte comes alone", () => {
    const frames: Frame[] = [
      { kind: "json", type: FrameType.Request, value: { text: "ä€𝄞\u0000\n" } },
      { kind: "data", stream: StreamId.Upload, offset: 2 ** 40 + 5, bytes: Buffer.from("payload") },
      { kind: "mark", type: FrameType.End, stream: StreamId.Stderr, offset: Number.MAX_SAFE_INTEGER },
      { kind: "json", type: FrameType.ControlAcknowledge, value: { seq: 1 } },
    ];
    const recorder = new Recorder();
    const decoder = new FrameDecoder(recorder);
    for (const byte of streamOf(frames)) decoder.push(Buffer.of(byte));
    expect(joined(recorder.frames)).toEqual(frames);
  });

  it("hands parts of a data frame on without copying them", () => {
    const chunk = Buffer.concat([PREAMBLE, streamHeader(FrameType.Data, 1, 0, 7, 9 + 100), Buffer.alloc(60, 1)]);
    const seen: { offset: number; length: number; shared: boolean }[] = [];
    const decoder = new FrameDecoder({
      json: () => {},
      mark: () => {},
      data: (_stream, offset, part) =>
        seen.push({ offset, length: part.length, shared: part.buffer === chunk.buffer || part.buffer === rest.buffer }),
    });
    const rest = Buffer.alloc(40, 2);
    decoder.push(chunk);
    decoder.push(rest);
    expect(seen).toEqual([
      { offset: 7, length: 60, shared: true },
      { offset: 67, length: 40, shared: true },
    ]);
  });

  it("tells when it is in the middle of the preamble", () => {
    const decoder = new FrameDecoder(new Recorder());
    expect(decoder.inPreamble).toBe(false);
    for (const byte of PREAMBLE.subarray(0, -1)) {
      decoder.push(Buffer.of(byte));
      expect(decoder.inPreamble).toBe(true);
    }
    decoder.push(PREAMBLE.subarray(-1));
    expect(decoder.inPreamble).toBe(false);
  });

  it("takes the name of a link before the preamble, whole or byte by byte, and only once", () => {
    const name = Buffer.from("000102030405060708090a0b", "hex");
    for (const size of [1, 5, 64]) {
      const links: string[] = [];
      const recorder = new Recorder();
      const decoder = new FrameDecoder(Object.assign(recorder, { link: (link: string) => links.push(link) }));
      const bytes = Buffer.concat([encodeLink(name), PREAMBLE, encodeMarkFrame(FrameType.End, StreamId.Stdout, 7)]);
      for (let at = 0; at < bytes.length; at += size) decoder.push(bytes.subarray(at, at + size));
      expect(links).toEqual([name.toString("hex")]);
      expect(recorder.frames).toEqual([{ kind: "mark", type: FrameType.End, stream: StreamId.Stdout, offset: 7 }]);
    }
    const named = () => {
      const decoder = new FrameDecoder(Object.assign(new Recorder(), { link() {} }));
      decoder.push(encodeLink(name));
      return decoder;
    };
    expect(named().inPreamble).toBe(false);
    expect(() => named().push(encodeLink(name))).toThrow(RuntimeError);
    expect(() => new FrameDecoder(new Recorder()).push(encodeLink(name))).toThrow(RuntimeError);
  });

  it("delivers nothing of a frame that was cut off", () => {
    for (const frame of [
      { kind: "json", type: FrameType.Response, value: { kind: "status" } },
      { kind: "mark", type: FrameType.Refuse, stream: StreamId.Stdin, offset: 3 },
    ] satisfies Frame[]) {
      const whole = streamOf([frame]);
      for (let length = 0; length < whole.length; length += 1) {
        const recorder = new Recorder();
        new FrameDecoder(recorder).push(whole.subarray(0, length));
        expect(recorder.frames).toEqual([]);
      }
    }
  });
});

describe("what cannot be protocol", () => {
  it.each([...PREAMBLE.keys()].slice(0, -1))("wrong magic at byte %i", (at) => {
    for (const wrong of [0x00, 0xff, PREAMBLE[at]! ^ 1]) {
      const bytes = Buffer.from(PREAMBLE);
      bytes[at] = wrong;
      expect(violationOf(bytes.subarray(0, at + 1))).toMatch(/does not begin with the protocol's magic bytes/);
    }
  });

  it("text that a shell or a server prints", () => {
    for (const text of ["Welcome to Debian\r\n", "SSH-2.0-OpenSSH_9.2\r\n", "HTTP/1.1 400 Bad Request\r\n", "PSRW\n"]) {
      expect(violationOf(Buffer.from(text))).toMatch(/magic bytes/);
    }
  });

  it("another wire version, named in the message", () => {
    const bytes = Buffer.from(PREAMBLE);
    bytes[7] = 9;
    expect(violationOf(bytes)).toMatch(/speaks wire version 9, this side speaks version 1/);
  });

  it.each(JSON_TYPES)("a JSON frame of type %i that is too short or too long", (type) => {
    for (const length of [0, 1, LONGEST[type]! + 1, 64 * 1024 * 1024, 0xffff_ffff]) {
      expect(violationOf(PREAMBLE, header(length, type))).toMatch(/claims \d+ bytes/);
    }
    expect(refusal([PREAMBLE, header(2, type)])).toBeUndefined();
    expect(refusal([PREAMBLE, header(LONGEST[type]!, type)])).toBeUndefined();
  });

  it("a data frame that is empty or too long", () => {
    for (const length of [0, 1, 8, 9, 9 + MAX_DATA_BYTES + 1, 0xffff_ffff]) {
      expect(violationOf(PREAMBLE, header(length, FrameType.Data))).toMatch(/a data frame claims \d+ bytes/);
    }
    expect(refusal([PREAMBLE, header(9 + MAX_DATA_BYTES, FrameType.Data)])).toBeUndefined();
  });

  it.each(MARK_TYPES)("a mark of type %i of any other length", (type) => {
    for (const length of [0, 8, 10, 0xffff_ffff]) {
      expect(violationOf(PREAMBLE, header(length, type))).toMatch(/claims \d+ bytes/);
    }
  });

  it("every frame type that does not exist", () => {
    const known = new Set<number>([...JSON_TYPES, ...MARK_TYPES, FrameType.Data]);
    for (let type = 0; type < 256; type += 1) {
      if (!known.has(type)) expect(violationOf(PREAMBLE, header(10, type))).toBe(wire(`unknown frame type ${type}`));
    }
  });

  it("every stream that does not exist", () => {
    for (let stream = 4; stream < 256; stream += 1) {
      expect(violationOf(PREAMBLE, streamHeader(FrameType.End, stream, 0, 0))).toBe(wire(`unknown stream ${stream}`));
    }
  });

  it("an offset that is no safe integer", () => {
    for (const high of [0x20_0000, 0x8000_0000, 0xffff_ffff]) {
      expect(violationOf(PREAMBLE, streamHeader(FrameType.Acknowledge, 1, high, 0))).toMatch(/offset is out of range/);
    }
    expect(refusal([PREAMBLE, streamHeader(FrameType.Acknowledge, 1, 0x1f_ffff, 0xffff_ffff)])).toBeUndefined();
  });

  it("a payload that is not JSON", () => {
    for (const text of ["{]", '"a', "{}x", "\u0000\u0000", "nul!", "{'a':1}", "[1,]", "NaN"]) {
      const bytes = Buffer.from(text);
      for (const parts of [[bytes], [bytes.subarray(0, 1), bytes.subarray(1)]]) {
        expect(violationOf(PREAMBLE, header(bytes.length, FrameType.Event), ...parts)).toBe(
          wire("a Event frame is not JSON"),
        );
      }
    }
  });

  it("JSON that is nested half a million deep overflows nothing", () => {
    const depth = 512 * 1024;
    const text = Buffer.from("[".repeat(depth) + "]".repeat(depth));
    const recorder = new Recorder();
    const decoder = new FrameDecoder(recorder);
    decoder.push(Buffer.concat([PREAMBLE, header(text.length, FrameType.Request), text]));
    expect(recorder.frames).toHaveLength(1);
    const half = text.subarray(0, depth);
    expect(violationOf(PREAMBLE, header(depth, FrameType.Request), half)).toMatch(/is not JSON/);
  });
});

describe("the encoder", () => {
  it.each(JSON_TYPES)("refuses what the other side would refuse (type %i)", (type) => {
    const fitting = "x".repeat(LONGEST[type]! - 2);
    expect(encodeJsonFrame(type, fitting)).toHaveLength(5 + LONGEST[type]!);
    expect(() => encodeJsonFrame(type, `${fitting}x`)).toThrow(RuntimeError);
    // Two bytes in UTF-8 for one character.
    expect(() => encodeJsonFrame(type, `${"x".repeat(LONGEST[type]! - 3)}ä`)).toThrow(/longer than the \d+ allowed/);
  });

  it("carries every safe offset", () => {
    fc.assert(
      fc.property(fc.maxSafeNat(), (offset) => {
        const recorder = new Recorder();
        new FrameDecoder(recorder).push(
          Buffer.concat([PREAMBLE, encodeMarkFrame(FrameType.Acknowledge, StreamId.Stdout, offset)]),
        );
        expect(recorder.frames).toEqual([
          { kind: "mark", type: FrameType.Acknowledge, stream: StreamId.Stdout, offset },
        ]);
      }),
    );
  });
});

/** As text, which is compared much faster than nested values; JSON has no negative zero. */
function readable(frames: readonly Frame[]): string[] {
  return frames.map((frame) =>
    frame.kind === "data"
      ? `data ${frame.stream} ${frame.offset} ${frame.bytes.toString("latin1")}`
      : JSON.stringify(frame),
  );
}

function refusal(chunks: readonly Buffer[]): unknown {
  const decoder = new FrameDecoder(new Recorder());
  try {
    for (const chunk of chunks) decoder.push(chunk);
    return undefined;
  } catch (error) {
    return error;
  }
}

/** The message of the wire-violation with which these chunks end. */
function violationOf(...chunks: Buffer[]): string {
  const error = refusal(chunks);
  expect(error).toBeInstanceOf(RuntimeError);
  expect((error as RuntimeError).code).toBe("wire-violation");
  return (error as RuntimeError).message;
}

function wire(text: string): string {
  return `Wire protocol error: ${text}`;
}

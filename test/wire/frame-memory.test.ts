import { describe, expect, it } from "vitest";
import { RuntimeError } from "../../src/wire/errors.ts";
import { FrameDecoder, type FrameHandler, FrameType, PREAMBLE } from "../../src/wire/frame.ts";
import { heldMemory } from "../support/memory.ts";
import { header, streamHeader } from "./frames.ts";

const MIB = 1024 * 1024;
const SILENT: FrameHandler = { json: () => {}, data: () => {}, mark: () => {} };

/** A decoder that has had its preamble. */
function decoder(): FrameDecoder {
  const fresh = new FrameDecoder(SILENT);
  fresh.push(PREAMBLE);
  return fresh;
}

describe("memory of the frame decoder", () => {
  it("a claim above the limit allocates nothing, however often it is made", () => {
    const claim = header(64 * MIB, FrameType.Request);
    const dataClaim = header(64 * MIB, FrameType.Data);
    const before = process.memoryUsage();
    const refused: FrameDecoder[] = [];
    for (let count = 0; count < 1000; count += 1) {
      const victim = decoder();
      expect(() => victim.push(count % 2 === 0 ? claim : dataClaim)).toThrow(RuntimeError);
      refused.push(victim);
    }
    const after = process.memoryUsage();
    expect(refused).toHaveLength(1000);
    expect(after.arrayBuffers - before.arrayBuffers).toBeLessThan(MIB);
    expect(after.external - before.external).toBeLessThan(MIB);
  });

  it("a claim within the limit allocates nothing before bytes come", () => {
    const before = heldMemory();
    const waiting = Array.from({ length: 1000 }, () => {
      const fresh = decoder();
      fresh.push(header(8 * MIB, FrameType.Request));
      fresh.push(Buffer.from("{"));
      return fresh;
    });
    expect(heldMemory() - before).toBeLessThan(1000 * 8 * 1024);
    expect(waiting).toHaveLength(1000);
  });

  it("a payload that trickles in, byte by byte, is held once and not more", () => {
    const received = MIB;
    const victim = decoder();
    victim.push(header(8 * MIB, FrameType.Request));
    const before = heldMemory();
    // Each byte in memory of its own, as a socket delivers it.
    for (let count = 0; count < received; count += 1) victim.push(Buffer.alloc(1, 0x20));
    expect(heldMemory() - before).toBeLessThan(2 * received + 64 * 1024);
    expect(() => victim.push(Buffer.alloc(7 * MIB, 0x20))).toThrow(/is not JSON/);
  });

  it("a byte of payload does not hold the chunk that it came in", () => {
    const victim = decoder();
    victim.push(header(100, FrameType.Event));
    const before = heldMemory();
    for (let count = 0; count < 50; count += 1) victim.push(Buffer.alloc(MIB).subarray(0, 1));
    expect(heldMemory() - before).toBeLessThan(MIB);
  });

  it("a decoder that has delivered its frames holds nothing", () => {
    const payload = Buffer.from(JSON.stringify("x".repeat(4 * MIB)));
    const idle = decoder();
    const before = heldMemory();
    for (const half of [payload.subarray(0, 1000), payload.subarray(1000)]) {
      if (half.length === 1000) idle.push(header(payload.length, FrameType.Request));
      idle.push(half);
    }
    for (let count = 0; count < 100; count += 1) {
      idle.push(streamHeader(FrameType.Data, 1, 0, count, 9 + 64 * 1024));
      idle.push(Buffer.alloc(64 * 1024));
    }
    expect(heldMemory() - before).toBeLessThan(256 * 1024);
  });
});

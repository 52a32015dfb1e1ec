import { once } from "node:events";
import { PassThrough } from "node:stream";
import { buffer } from "node:stream/consumers";
import { describe, expect, it } from "vitest";
import {
  BRIDGE_MAGIC,
  BridgeDecoder,
  BridgeFrameType,
  type BridgeMark,
  encodeBridgeHeader,
  MAX_BRIDGE_DATA_BYTES,
} from "../../src/wire/bridge.ts";
import { BridgeLink, type BridgeLinkEvents } from "../../src/wire/bridge-link.ts";
import type { BridgeStream } from "../../src/wire/bridge-stream.ts";
import type { RuntimeError } from "../../src/wire/errors.ts";
import { MAX_CONNECTION_BYTES } from "../../src/wire/limits.ts";
import { heldMemory } from "../support/memory.ts";

const { Open, Opened, Data, End, Close } = BridgeFrameType;
const KIB = 1024;

function mark(type: BridgeMark, connection: number): Buffer {
  return encodeBridgeHeader(type, connection, 0);
}

function data(connection: number, bytes: Buffer): Buffer {
  return Buffer.concat([encodeBridgeHeader(Data, connection, bytes.length), bytes]);
}

describe("bridge frames", () => {
  type Seen = ["magic"] | ["mark", BridgeMark, number] | ["data", number, string];

  /** What a decoder makes of these chunks; parts of one data frame are joined. */
  function decode(chunks: Buffer[], noise?: Buffer[]): Seen[] {
    const seen: Seen[] = [];
    const decoder = new BridgeDecoder(
      {
        magic: () => seen.push(["magic"]),
        mark: (type, connection) => seen.push(["mark", type, connection]),
        data: (connection, chunk) => {
          const last = seen.at(-1);
          if (last?.[0] === "data" && last[1] === connection) last[2] += chunk.toString("latin1");
          else seen.push(["data", connection, chunk.toString("latin1")]);
        },
      },
      noise === undefined ? undefined : (bytes) => noise.push(bytes),
    );
    for (const chunk of chunks) decoder.push(chunk);
    return seen;
  }

  const FRAMES = [
    mark(Open, 1),
    mark(Opened, 1),
    data(1, Buffer.from("PSRB\r\n\x1a\x01 is only data here")),
    data(0xffff_ffff, Buffer.alloc(MAX_BRIDGE_DATA_BYTES, "x")),
    mark(End, 1),
    mark(Close, 2),
  ];
  const WHOLE = Buffer.concat([BRIDGE_MAGIC, ...FRAMES]);
  const MEANING: Seen[] = [
    ["magic"],
    ["mark", Open, 1],
    ["mark", Opened, 1],
    ["data", 1, "PSRB\r\n\x1a\x01 is only data here"],
    ["data", 0xffff_ffff, "x".repeat(MAX_BRIDGE_DATA_BYTES)],
    ["mark", End, 1],
    ["mark", Close, 2],
  ];

  it("mean the same however they are cut", () => {
    expect(decode([WHOLE])).toEqual(MEANING);
    expect(decode([...WHOLE].map((byte) => Buffer.of(byte)))).toEqual(MEANING);
    for (let size = 2; size < 40; size += 1) {
      const chunks: Buffer[] = [];
      for (let at = 0; at < WHOLE.length; at += size) chunks.push(WHOLE.subarray(at, at + size));
      expect(decode(chunks)).toEqual(MEANING);
    }
  });

  it.each(["", "Welcome!\r\n", "PSR", "PSRBPSRB\r\n", "PSRB\r\n\x1a\x02", `PPSRB\r\nPSRB\r\n\x1aP`])(
    "begin behind whatever a login prints: %j",
    (text) => {
      for (const size of [1, 3, 1000]) {
        const bytes = Buffer.concat([Buffer.from(text), WHOLE]);
        const chunks: Buffer[] = [];
        for (let at = 0; at < bytes.length; at += size) chunks.push(bytes.subarray(at, at + size));
        const noise: Buffer[] = [];
        expect(decode(chunks, noise)).toEqual(MEANING);
        expect(Buffer.concat(noise).toString("latin1")).toBe(text + BRIDGE_MAGIC.toString("latin1"));
      }
    },
  );

  it.each<[string, Buffer]>([
    ["no magic", Buffer.from("Welcome!")],
    ["another version", Buffer.from("PSRB\r\n\x1a\x02")],
    ["an empty data frame", Buffer.concat([BRIDGE_MAGIC, encodeBridgeHeader(Data, 1, 0)])],
    ["too long a data frame", Buffer.concat([BRIDGE_MAGIC, encodeBridgeHeader(Data, 1, MAX_BRIDGE_DATA_BYTES + 1)])],
    ["the longest length there is", Buffer.concat([BRIDGE_MAGIC, encodeBridgeHeader(Data, 1, 0xffff_ffff)])],
    ["a mark with a payload", Buffer.concat([BRIDGE_MAGIC, encodeBridgeHeader(End, 1, 1)])],
    ["type 0", Buffer.concat([BRIDGE_MAGIC, encodeBridgeHeader(0 as BridgeMark, 1, 0)])],
    ["type 6", Buffer.concat([BRIDGE_MAGIC, encodeBridgeHeader(6 as BridgeMark, 1, 0)])],
  ])("are refused at the header: %s", (_what, bytes) => {
    expect(() => decode([bytes])).toThrow(/^Wire protocol error: /);
  });
});

/** Two ends joined by pipes. */
function joined(hostEvents: Partial<BridgeLinkEvents> = {}) {
  const up = new PassThrough();
  const down = new PassThrough();
  const accepted: BridgeStream[] = [];
  const closed: RuntimeError[] = [];
  const near: BridgeLink = new BridgeLink(down, up, { onClosed: (reason) => closed.push(reason) });
  const far: BridgeLink = new BridgeLink(up, down, {
    onOpen: (connection) => accepted.push(far.accept(connection)!),
    onClosed: (reason) => closed.push(reason),
    ...hostEvents,
  });
  near.greet();
  far.greet();
  return { near, far, up, down, accepted, closed };
}

describe("a bridge", () => {
  it("carries each connection's bytes and half-closes both ways", async () => {
    const { near, accepted } = joined();
    const streams = await Promise.all(Array.from({ length: 20 }, () => near.open()));
    const echoes = accepted.map((stream) => stream.pipe(stream));
    const outputs = await Promise.all(
      streams.map(async (stream, index) => {
        const text = `${index} `.repeat(50_000);
        stream.end(text);
        return (await buffer(stream)).equals(Buffer.from(text));
      }),
    );
    expect(outputs).toEqual(outputs.map(() => true));
    await Promise.all(echoes.map((stream) => stream.closed || once(stream, "close")));
    expect(near.count).toBe(0);
  });

  it("tells that nobody listens", async () => {
    const { near, far } = joined({ onOpen: (connection) => far.refuse(connection) });
    await expect(near.open()).rejects.toMatchObject({ code: "stream-refused" });
    await expect(near.open()).rejects.toMatchObject({ code: "stream-refused" });
  });

  it("delivers what was sent before a close, takes nothing after it, and forgets the connection", async () => {
    const { near, far, accepted } = joined();
    const stream = await near.open();
    accepted[0]!.write("last words");
    accepted[0]!.once("finish", () => accepted[0]!.destroy());
    accepted[0]!.end();
    expect((await buffer(stream)).toString()).toBe("last words");
    await new Promise((resolve) => stream.write("too late", resolve));
    if (!stream.closed) await once(stream, "close");
    expect([near.count, far.count]).toEqual([0, 0]);
    expect(stream.errored).toBeNull();
  });

  it("fails all connections when it is lost, those that are being opened too", async () => {
    const { near, up, closed } = joined({ onOpen: () => {} });
    const opening = near.open();
    up.destroy();
    await expect(opening).rejects.toMatchObject({ code: "connection-lost" });
    await expect(near.open()).rejects.toMatchObject({ code: "connection-lost" });
    expect(closed).toHaveLength(2);
  });

  it("goes on beside a connection that nobody reads, and gives that one up when it brings too much", async () => {
    const { near, accepted } = joined();
    const [ignored, other] = [await near.open(), await near.open()];
    accepted[0]!.resume();
    accepted[1]!.pipe(accepted[1]!);
    const block = Buffer.alloc(MAX_BRIDGE_DATA_BYTES);
    let sent = 0;
    while (!accepted[0]!.destroyed) {
      await new Promise<void>((resolve) => accepted[0]!.write(block, () => resolve()));
      sent += block.length;
      if (sent % (8 * KIB * KIB) !== 0) continue;
      other.write("x");
      expect(String(await once(other, "data"))).toBe("x");
    }
    expect(sent).toBeGreaterThan(MAX_CONNECTION_BYTES);
    expect(sent).toBeLessThan(1.2 * MAX_CONNECTION_BYTES);
    expect(ignored.errored).toMatchObject({ code: "connection-lost" });
    other.write("y");
    expect(String(await once(other, "data"))).toBe("y");
  });

  it("keeps no more memory for single bytes than for long pieces", () => {
    const input = new PassThrough();
    const link = new BridgeLink(input, new PassThrough(), {
      onOpen: (connection) => void link.accept(connection),
      onClosed: () => {},
    });
    const BYTES = 200_000;
    const begin = Buffer.concat([BRIDGE_MAGIC, mark(Open, 1)]);
    const frame = data(1, Buffer.of(1));
    const before = heldMemory();
    input.emit("data", begin);
    // Each in a chunk of its own, as from a peer that trickles.
    for (let count = 0; count < BYTES; count += 1) input.emit("data", Buffer.from(frame));
    expect(heldMemory() - before).toBeLessThan(2 * KIB * KIB);
    expect(link.count).toBe(1);
  });

  it.each<[string, Buffer[]]>([
    ["data for a connection that was never opened", [data(1, Buffer.of(1))]],
    ["the end of one", [mark(End, 7)]],
    ["connection 0", [mark(Close, 0)]],
    ["a number left out", [mark(Open, 2)]],
    ["a number twice", [mark(Open, 1), mark(Open, 1)]],
    ["an answer to no question", [mark(Open, 1), mark(Opened, 1)]],
  ])("ends at %s", (_what, frames) => {
    const input = new PassThrough();
    const reasons: RuntimeError[] = [];
    const link = new BridgeLink(input, new PassThrough(), {
      onOpen: (connection) => void link.accept(connection),
      onClosed: (reason) => reasons.push(reason),
    });
    input.emit("data", Buffer.concat([BRIDGE_MAGIC, ...frames]));
    expect(reasons).toMatchObject([{ code: "wire-violation" }]);
    expect(link.count).toBe(0);
  });

  it("ends at data for a connection that is not accepted yet, and at a connection that the host's end opens", () => {
    for (const [onOpen, frames] of [
      [() => {}, [mark(Open, 1), data(1, Buffer.of(1))]],
      [undefined, [mark(Open, 1)]],
    ] as const) {
      const input = new PassThrough();
      const reasons: RuntimeError[] = [];
      new BridgeLink(input, new PassThrough(), {
        ...(onOpen === undefined ? {} : { onOpen }),
        onClosed: (reason) => reasons.push(reason),
      });
      input.emit("data", Buffer.concat([BRIDGE_MAGIC, ...frames]));
      expect(reasons).toMatchObject([{ code: "wire-violation" }]);
    }
  });

  it("ends when its other end provokes answers and takes none", () => {
    const input = new PassThrough();
    const reasons: RuntimeError[] = [];
    // Takes nothing.
    const output = new PassThrough({ highWaterMark: 1 });
    const link = new BridgeLink(input, output, {
      onOpen: (connection) => link.refuse(connection),
      onClosed: (reason) => reasons.push(reason),
    });
    link.greet();
    input.emit("data", BRIDGE_MAGIC);
    for (let connection = 1; reasons.length === 0 && connection < 200_000; connection += 1) {
      input.emit("data", mark(Open, connection));
    }
    expect(reasons).toMatchObject([{ code: "wire-violation" }]);
  });

  it("survives what comes late for a connection that is closed here", async () => {
    const { near, far, accepted, closed } = joined();
    const stream = await near.open();
    accepted[0]!.write(Buffer.alloc(256 * KIB));
    stream.destroy();
    await once(accepted[0]!.resume(), "close");
    expect([near.count, far.count, closed.length]).toEqual([0, 0, 0]);
    expect(await near.open()).toBeDefined();
  });
});

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { DialLineReader, MAX_DIAL_LINE_BYTES, parseDialReply } from "../../src/wire/dial.ts";
import { parseDialRequest } from "../../src/wire/dial-request.ts";
import { pieces } from "./frames.ts";

describe("the line reader", () => {
  it("returns lines and the raw bytes behind them, however they are cut", () => {
    const line = fc.string({ unit: "grapheme", maxLength: 30 }).map((text) => text.replaceAll("\n", ""));
    const cuts = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 10 });
    fc.assert(
      fc.property(fc.array(line, { maxLength: 4 }), fc.uint8Array({ maxLength: 50 }), cuts, (lines, rest, places) => {
        const raw = Buffer.from(rest).map((byte) => (byte === 0x0a ? 0x0b : byte));
        const stream = Buffer.concat([Buffer.from(lines.map((text) => `${text}\n`).join("")), raw]);
        const reader = new DialLineReader();
        const seen: string[] = [];
        for (const piece of pieces(stream, places)) {
          reader.push(piece);
          for (let text = reader.next(); text !== undefined; text = reader.next()) seen.push(text);
        }
        expect(seen).toEqual(lines);
        expect(reader.rest().equals(raw)).toBe(true);
        expect(reader.rest()).toHaveLength(0);
      }),
    );
  });

  it("leaves newlines alone that come behind the lines that were taken", () => {
    const reader = new DialLineReader();
    reader.push(Buffer.from("{}\nraw\nbytes\n"));
    expect(reader.next()).toBe("{}");
    expect(reader.rest().toString()).toBe("raw\nbytes\n");
    expect(reader.next()).toBeUndefined();
  });

  it("takes the longest line and no longer one, also when it trickles", () => {
    const longest = Buffer.alloc(MAX_DIAL_LINE_BYTES, "x");
    longest[longest.length - 1] = 0x0a;
    const whole = new DialLineReader();
    whole.push(longest);
    expect(whole.next()).toHaveLength(MAX_DIAL_LINE_BYTES - 1);

    const trickled = new DialLineReader();
    const push = () => {
      for (let count = 0; count < 100; count += 1) trickled.push(Buffer.alloc(4096, "x"));
    };
    expect(push).toThrow(RangeError);
    expect(() => new DialLineReader().push(Buffer.alloc(MAX_DIAL_LINE_BYTES + 1, "x"))).toThrow(RangeError);
  });

  it("does not count what follows the line", () => {
    const reader = new DialLineReader();
    reader.push(Buffer.concat([Buffer.from("{}\n"), Buffer.alloc(2 * MAX_DIAL_LINE_BYTES)]));
    expect(reader.next()).toBe("{}");
    expect(reader.rest()).toHaveLength(2 * MAX_DIAL_LINE_BYTES);
  });
});

describe("messages of the dial protocol", () => {
  it.each<[string, object]>([
    ["dial", { type: "dial", options: { host: "h", x: [1] }, caller: {} }],
    [
      "dial",
      { type: "dial", options: {}, caller: { HOME: "/", PATH: "", SSH_AUTH_SOCK: "s" }, session: "s", patienceMs: 1 },
    ],
    ["status", { type: "status" }],
    ["stop", { type: "stop" }],
  ])("a request: %s", (_name, request) => {
    expect(parseDialRequest(JSON.stringify(request))).toEqual(request);
  });

  it.each([
    "",
    "{",
    "null",
    "[]",
    '{"type":"reboot"}',
    '{"type":"stop","now":true}',
    '{"type":"dial","options":{},"caller":{"LD_PRELOAD":"x"}}',
    '{"type":"dial","options":[],"caller":{}}',
    '{"type":"dial","options":{},"caller":{},"patienceMs":"1"}',
    '{"type":"dial","options":{}}',
  ])("no request: %s", (line) => {
    expect(() => parseDialRequest(line)).toThrow();
  });

  it.each<object>([
    { type: "connected" },
    { type: "progress", text: "Connecting…" },
    { type: "error", error: { code: "usage", message: "m", remedy: "r" } },
    { type: "stopping", pid: 1 },
    {
      type: "status",
      pid: 1,
      hosts: [
        {
          host: "h",
          state: "connected",
          channels: 1,
          spares: 4,
          connectedForMs: 61_000,
          carrier: "ssh2",
          roundTripMs: 31,
          workspaces: 2,
          executions: 3,
          agent: { pid: 1, build: "b", node: "v20", platform: "linux-x64" },
        },
        { host: "i", state: "waiting", channels: 0, spares: 0, error: "x" },
      ],
    },
  ])("a reply: %j", (reply) => {
    expect(parseDialReply(JSON.stringify(reply))).toEqual(reply);
    expect(parseDialReply(` ${JSON.stringify(reply)}`)).toEqual(reply);
  });

  it.each(["", "connected", '{"type":"connected","extra":1}', '{"type":"error","error":{"code":"x"}}'])(
    "no reply: %s",
    (line) => {
      expect(() => parseDialReply(line)).toThrow();
    },
  );
});

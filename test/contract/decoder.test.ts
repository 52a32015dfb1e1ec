import { describe, expect, it } from "vitest";
import {
  CommandRuntimeControlSchema,
  CommandRuntimeProcessEventSchema,
  createCommandRuntimeMessageDecoder,
  encodeCommandRuntimeMessage,
} from "../../src/contract/index.ts";
import { failureOf } from "./support.ts";

const message = { type: "error", protocolVersion: 1, message: "é 😀 done" } as const;
const line = encodeCommandRuntimeMessage(CommandRuntimeProcessEventSchema, message);

function decoder(maxFrameBytes?: number) {
  const options = maxFrameBytes === undefined ? {} : { maxFrameBytes };
  return createCommandRuntimeMessageDecoder(CommandRuntimeProcessEventSchema, { code: "control-invalid", ...options });
}

describe("message decoder", () => {
  it("takes bytes cut anywhere, also inside a character", () => {
    const bytes = Buffer.from(line);
    for (let cut = 0; cut <= bytes.length; cut++) {
      const decoding = decoder();
      expect([...decoding.push(bytes.subarray(0, cut)), ...decoding.push(bytes.subarray(cut))]).toEqual([message]);
      decoding.finish();
    }
  });

  it("takes text cut anywhere, also inside a surrogate pair, and text after bytes", () => {
    for (let cut = 0; cut <= line.length; cut++) {
      const decoding = decoder();
      expect([...decoding.push(line.slice(0, cut)), ...decoding.push(line.slice(cut))]).toEqual([message]);
      decoding.finish();
    }
    const mixed = decoder();
    expect([...mixed.push(Buffer.from(line.slice(0, 9))), ...mixed.push(line.slice(9))]).toEqual([message]);
  });

  it("does not keep the caller's memory", () => {
    const decoding = decoder();
    const chunk = Buffer.from(line.slice(0, 20));
    decoding.push(chunk);
    chunk.fill(0);
    expect(decoding.push(line.slice(20))).toEqual([message]);
  });

  it("returns all messages of a chunk in order", () => {
    const ids = [3, 1, 2];
    const resizes = ids.map((id) => ({ type: "resize", protocolVersion: 1, id, rows: 1, cols: 1 }) as const);
    const text = resizes.map((resize) => encodeCommandRuntimeMessage(CommandRuntimeControlSchema, resize)).join("");
    expect(createCommandRuntimeMessageDecoder(CommandRuntimeControlSchema).push(text)).toEqual(resizes);
  });

  it.each<[string, string | Uint8Array, string]>([
    ["an empty line", `${line}\n`, "A message is an empty line"],
    ["a line of blanks", "  \n", "A message ends in the middle of a JSON value"],
    ["what is not JSON", "{hunter2}\n", "A message is not"],
    ["two messages in a line", `${line.trim()}${line}`, "A message holds a second JSON value"],
    ["an unknown key", `{"type":"eof","protocolVersion":1,"x":1}\n`, 'Unrecognized key: "x"'],
    ["bytes that are not UTF-8", Buffer.from([0x22, 0xc3, 0x28, 0x22, 0x0a]), "A message is not valid UTF-8"],
    ["half of a character", '"\ud83d"\n', "A message holds half of a character"],
    ["the other half", '"\ude00"\n', "A message holds half of a character"],
    ["a byte order mark", `\ufeff${line}`, "A message is not"],
  ])("refuses %s, for good", (_name, chunk, problem) => {
    const decoding = decoder();
    const failure = failureOf(() => decoding.push(chunk), "control-invalid");
    expect(failure.message).toContain(problem);
    expect(failure.message).not.toContain("hunter2");
    expect(failureOf(() => decoding.push(line))).toBe(failure);
    expect(failureOf(() => decoding.finish())).toBe(failure);
  });

  it("refuses half of a character that bytes follow", () => {
    const decoding = decoder();
    decoding.push('"\ud83d');
    decoding.push(new Uint8Array());
    failureOf(() => decoding.push(Buffer.from(line)), "control-invalid");
  });

  it.each([line.slice(0, -1), "{", "\ud83d"])("refuses an end inside a message: %j", (text) => {
    const decoding = decoder();
    expect(decoding.push(text)).toEqual([]);
    expect(failureOf(() => decoding.finish(), "control-invalid").message).toContain("ended before newline");
  });

  it("ends well between messages, and without any", () => {
    expect(() => decoder().finish()).not.toThrow();
    const decoding = decoder();
    decoding.push(line);
    expect(() => decoding.finish()).not.toThrow();
  });

  it("tells another protocol version by its own code", () => {
    const failure = failureOf(() => decoder().push('{"type":"begun","protocolVersion":2}\n'));
    expect(failure.code).toBe("protocol-version-unsupported");
  });
});

describe("length of a message", () => {
  const bytes = Buffer.from(line);
  const exact = bytes.length - 1;

  it("may be exactly the limit, in one chunk or in many", () => {
    expect(decoder(exact).push(bytes)).toEqual([message]);
    const decoding = decoder(exact);
    expect([...bytes].flatMap((byte) => decoding.push(Uint8Array.of(byte)))).toEqual([message]);
  });

  it("fails one byte above, whole or in parts, and is counted for each message anew", () => {
    expect(failureOf(() => decoder(exact - 1).push(bytes), "control-invalid").message).toBe(
      `A message is longer than ${exact - 1} bytes`,
    );
    const decoding = decoder(exact - 1);
    decoding.push(bytes.subarray(0, exact - 1));
    failureOf(() => decoding.push(bytes.subarray(exact - 1, exact)), "control-invalid");
    expect(decoder(exact).push(Buffer.concat([bytes, bytes, bytes]))).toHaveLength(3);
  });

  it("is 1 MiB by default, and a line without end fails before it is held", () => {
    const decoding = decoder();
    const chunk = Buffer.alloc(64 * 1024, "x");
    let pushed = 0;
    const failure = failureOf(() => {
      for (; pushed < 32; pushed++) decoding.push(chunk);
    }, "control-invalid");
    expect(failure.message).toBe("A message is longer than 1048576 bytes");
    expect(pushed).toBe(16);
    failureOf(() => decoder().push(Buffer.alloc(64 * 1024 * 1024, "x")), "control-invalid");
  });
});

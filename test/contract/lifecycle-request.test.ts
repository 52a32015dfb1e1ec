import { describe, expect, it } from "vitest";
import { MAX_LIFECYCLE_REQUEST_BYTES, parseLifecycleRequest } from "../../src/contract/index.ts";
import { failureOf } from "./support.ts";

const REQUEST = '{"protocolVersion":1,"runtimeInstanceId":"a1b2","options":{"token":"hunter2"}}';

describe("parseLifecycleRequest", () => {
  it.each([REQUEST, `${REQUEST}\n`, ` \n\t${REQUEST}\r\n\n`, JSON.stringify(JSON.parse(REQUEST), null, 2)])(
    "takes one value, whatever the white space around it: %j",
    (text) => {
      const expected = { protocolVersion: 1, runtimeInstanceId: "a1b2", options: { token: "hunter2" } };
      expect(parseLifecycleRequest(text)).toStrictEqual(expected);
      expect(parseLifecycleRequest(Buffer.from(text))).toStrictEqual(expected);
    },
  );

  it.each([
    ["", "is missing: stdin ended without a JSON value"],
    [" \n\n", "is missing: stdin ended without a JSON value"],
    ["hunter2", "is not JSON"],
    ["pw at position 3", "is not JSON"],
    [REQUEST.slice(0, -1), "ends in the middle of a JSON value"],
    [`${REQUEST.slice(0, -1)} \n`, "ends in the middle of a JSON value"],
    [REQUEST.slice(0, -4), "ends in the middle of a JSON value"],
    [REQUEST.slice(0, 1), "ends in the middle of a JSON value"],
    [REQUEST.replace('"a1b2",', '"a1b2"'), "is not valid JSON, from character 48 on"],
    [
      `${REQUEST}\n${REQUEST}`,
      `holds a second JSON value, at character ${REQUEST.length + 2}; exactly one is expected`,
    ],
    [`${REQUEST} null`, `holds a second JSON value, at character ${REQUEST.length + 2}; exactly one is expected`],
    [`${REQUEST}}`, `goes on after its JSON value, at character ${REQUEST.length + 1}`],
    [`${REQUEST} hunter2`, `goes on after its JSON value, at character ${REQUEST.length + 2}`],
    [`\ufeff${REQUEST}`, "is not JSON"],
  ])("refuses %j", (text, problem) => {
    const failure = failureOf(() => parseLifecycleRequest(text), "request-invalid");
    expect(failure.message).toBe(`The lifecycle request on stdin ${problem}`);
    expect(`${failure.stack} ${String(failure.cause)}`).not.toContain("hunter2");
  });

  it.each(["null", "[]", '"x"', "1", "{}", "true"])("refuses the wrong JSON value %s", (text) => {
    failureOf(() => parseLifecycleRequest(text), "request-invalid");
  });

  it("names an unknown key of a later draft, and a later version", () => {
    const draft = REQUEST.replace("{", '{"runtimeGeneration":"g1",');
    expect(failureOf(() => parseLifecycleRequest(draft)).toLine()).toBe(
      'Not a valid Paseo runtime message: Unrecognized key: "runtimeGeneration". [request-invalid]',
    );
    const later = draft.replace(":1,", ":2,");
    expect(failureOf(() => parseLifecycleRequest(later), "protocol-version-unsupported").message).toBe(
      "Protocol version 2 is not supported: expected 1",
    );
  });

  it("refuses bytes that are not UTF-8 instead of changing them", () => {
    const bytes = Buffer.from(REQUEST);
    bytes[bytes.indexOf("h")] = 0xff;
    const failure = failureOf(() => parseLifecycleRequest(bytes), "request-invalid");
    expect(failure.message).toBe("The lifecycle request on stdin is not valid UTF-8");
  });

  it("has a limit of length", () => {
    const filled = (length: number) =>
      REQUEST.replace("hunter2", "x".repeat(length - REQUEST.length + "hunter2".length));
    expect(() => parseLifecycleRequest(filled(MAX_LIFECYCLE_REQUEST_BYTES))).not.toThrow();
    for (const input of [
      filled(MAX_LIFECYCLE_REQUEST_BYTES + 1),
      Buffer.from(filled(MAX_LIFECYCLE_REQUEST_BYTES + 1)),
    ]) {
      const failure = failureOf(() => parseLifecycleRequest(input), "request-invalid");
      expect(failure.message).toBe("The lifecycle request on stdin is longer than 8388608 bytes");
    }
  });
});

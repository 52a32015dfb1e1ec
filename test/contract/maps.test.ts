import { describe, expect, it } from "vitest";
import {
  CommandRuntimeLifecycleRequestSchema,
  CommandRuntimeSpawnEnvelopeSchema,
  CommandRuntimeStateSchema,
  encodeCommandRuntimeMessage,
  parseCommandRuntimeMessage,
  parseLifecycleRequest,
} from "../../src/contract/index.ts";
import { failureOf } from "./support.ts";

const HOSTILE = '{"z":"1","__proto__":"own","constructor":"kept","hasOwnProperty":"kept","a b.c":"2","":"3"}';

describe("maps", () => {
  it("keep hostile names of variables as own keys, in their order, and change no prototype", () => {
    const line = `{"workspaceId":"ws-7","lifecycle":"ready","lifecycleEnvironment":${HOSTILE}}`;
    const state = parseCommandRuntimeMessage(CommandRuntimeStateSchema, JSON.parse(line));
    expect(Object.entries(state.lifecycleEnvironment ?? {})).toEqual([
      ["z", "1"],
      ["__proto__", "own"],
      ["constructor", "kept"],
      ["hasOwnProperty", "kept"],
      ["a b.c", "2"],
      ["", "3"],
    ]);
    expect(Object.getPrototypeOf(state.lifecycleEnvironment)).toBe(Object.prototype);
    expect(encodeCommandRuntimeMessage(CommandRuntimeStateSchema, state)).toBe(`${line}\n`);
  });

  it("keep an options object named __proto__ as data at every depth", () => {
    const options =
      '{"__proto__":{"polluted":true},"deep":{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}}';
    const request = parseLifecycleRequest(`{"protocolVersion":1,"runtimeInstanceId":"a","options":${options}}`);
    expect(JSON.stringify(request.options)).toBe(options);
    expect(Object.hasOwn(request.options, "__proto__")).toBe(true);
    expect("polluted" in request.options).toBe(false);
    expect("polluted" in {}).toBe(false);
  });

  it("say which entry is not a string, and never show what it holds", () => {
    const env = JSON.parse('{"GOOD":"1","__proto__":{"password":"hunter2"},"NUMBER":12345}') as unknown;
    const spawn = {
      type: "spawn",
      protocolVersion: 1,
      runtimeInstanceId: "a",
      argv: ["x"],
      env,
      purpose: { kind: "git" },
    };
    const { message } = failureOf(() =>
      parseCommandRuntimeMessage(CommandRuntimeSpawnEnvelopeSchema, {
        ...spawn,
        options: {},
        execId: "e",
        stdio: { kind: "pipes" },
      }),
    );
    expect(message).toContain("expected a string at env.__proto__");
    expect(message).toContain("expected a string at env.NUMBER");
    expect(message).not.toMatch(/hunter2|12345|GOOD/);
  });

  it.each([
    ["a number that JSON has no word for", { value: Number.NaN }],
    ["infinity", { value: Number.POSITIVE_INFINITY }],
    ["undefined", { value: undefined }],
    ["a big integer", { value: 1n }],
    ["a function", { toJSON: () => "forged" }],
    ["a date", { value: new Date(0) }],
    ["an instance of a class", { value: new Map([["a", 1]]) }],
    ["a hole in a list", { value: new Array(1) }],
    ["a symbol", { value: Symbol("x") }],
    ["a cycle", cyclic()],
  ])("take nothing that JSON cannot carry: %s", (_name, options) => {
    const request = { protocolVersion: 1, runtimeInstanceId: "a", options };
    const failure = failureOf(() => parseLifecycleRequestValue(request));
    expect(failure.message).toContain("expected a JSON value");
  });

  it.each([null, [], "x", 1, new Map(), new Date(0), undefined])("are plain objects, not %o", (options) => {
    const failure = failureOf(() =>
      parseLifecycleRequestValue({ protocolVersion: 1, runtimeInstanceId: "a", options }),
    );
    expect(failure.message).toContain("expected a map at options");
  });

  it("have a limit of depth, far below where the stack ends", () => {
    const nested = (depth: number) =>
      `{"protocolVersion":1,"runtimeInstanceId":"a","options":{"o":${"[".repeat(depth)}${"]".repeat(depth)}}}`;
    expect(() => parseLifecycleRequest(nested(64))).not.toThrow();
    for (const depth of [65, 100_000]) {
      expect(failureOf(() => parseLifecycleRequest(nested(depth))).message).toContain("at most 64 deep at options.o");
    }
  });
});

function parseLifecycleRequestValue(value: unknown): unknown {
  return parseCommandRuntimeMessage(CommandRuntimeLifecycleRequestSchema, value);
}

function cyclic(): Record<string, unknown> {
  const cycle: Record<string, unknown> = {};
  cycle.self = cycle;
  return cycle;
}

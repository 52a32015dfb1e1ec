import { describe, expect, it } from "vitest";
import {
  CommandRuntimeControlSchema,
  CommandRuntimeCreateInputSchema,
  CommandRuntimeInspectionSchema,
  CommandRuntimeLifecycleRequestSchema,
  CommandRuntimePlacementIntentSchema,
  CommandRuntimeStateSchema,
  encodeCommandRuntimeMessage,
  parseCommandRuntimeMessage,
} from "../../src/contract/index.ts";
import { SAMPLES } from "./samples.ts";
import { failureOf, schemaNamed } from "./support.ts";

const versioned = SAMPLES.filter(({ value }) => "protocolVersion" in value);

describe("protocol version", () => {
  it.each(versioned.map((sample, index) => [`${sample.schema} ${index}`, sample] as const))(
    "other than 1 is told before anything else is looked at: %s",
    (_name, { schema, value }) => {
      for (const [received, told] of [
        [2, "2"],
        [0, "0"],
        [1.5, "1.5"],
        ["1", '"1"'],
        [null, "null"],
        [[1], "of type object"],
        ["x".repeat(21), "of type string"],
      ] as const) {
        const newer = { ...value, protocolVersion: received, runtimeGeneration: "g", type: "unheard-of" };
        for (const message of [newer, { ...value, protocolVersion: received }]) {
          const failure = failureOf(() => parseCommandRuntimeMessage(schemaNamed(schema), message, "control-invalid"));
          expect(failure.code).toBe("protocol-version-unsupported");
          expect(failure.message).toBe(`Protocol version ${told} is not supported: expected 1`);
          expect(failure.remedy).toContain("version 1");
        }
        expect(() => schemaNamed(schema).parse({ ...value, protocolVersion: received })).toThrow(/expected 1/);
      }
    },
  );

  it("that is missing is an ordinary failure", () => {
    const failure = failureOf(() =>
      parseCommandRuntimeMessage(CommandRuntimeLifecycleRequestSchema, { runtimeInstanceId: "a", options: {} }),
    );
    expect(failure.code).toBe("request-invalid");
    expect(failure.message).toContain("expected 1 at protocolVersion");
  });

  it("is an unknown key where the shape has none", () => {
    for (const [schema, value] of [
      [CommandRuntimeStateSchema, { workspaceId: "ws-7", lifecycle: "ready", protocolVersion: 2 }],
      [CommandRuntimeInspectionSchema, { status: "missing", protocolVersion: 2 }],
    ] as const) {
      const failure = failureOf(() => parseCommandRuntimeMessage<unknown>(schema, value), "request-invalid");
      expect(failure.message).toContain('Unrecognized key: "protocolVersion"');
    }
  });
});

describe("what a failure says", () => {
  it("names the unknown key and its place", () => {
    const input = {
      workspaceId: "ws-7",
      project: { projectId: "shop", source: { kind: "directory", path: "/srv", x: 1 } },
      placement: { kind: "existing" },
    };
    expect(failureOf(() => parseCommandRuntimeMessage(CommandRuntimeCreateInputSchema, input)).message).toBe(
      'Not a valid Paseo runtime message: Unrecognized key: "x" at project.source',
    );
  });

  it("is about the branch that the message chose", () => {
    const branch = { kind: "branch", branchName: "x", ref: "main" };
    const { message } = failureOf(() => parseCommandRuntimeMessage(CommandRuntimePlacementIntentSchema, branch));
    expect(message).toContain('Unrecognized key: "ref"');
    expect(message).toContain("expected string, received undefined at baseRef");
    expect(message).not.toContain("worktreeSlug");
  });

  it("lists the branches when there is no such one", () => {
    const { message } = failureOf(() => parseCommandRuntimeMessage(CommandRuntimeControlSchema, { type: "kill" }));
    expect(message).toContain("Expected 'spawn' | 'resize' | 'signal' at type");
  });

  it("carries the caller's code", () => {
    failureOf(() => parseCommandRuntimeMessage(CommandRuntimeControlSchema, {}, "control-invalid"), "control-invalid");
    failureOf(() => parseCommandRuntimeMessage(CommandRuntimeControlSchema, {}), "request-invalid");
    failureOf(() => encodeCommandRuntimeMessage(CommandRuntimeControlSchema, {} as never), "internal");
    failureOf(
      () => encodeCommandRuntimeMessage(CommandRuntimeControlSchema, {} as never, "wire-violation"),
      "wire-violation",
    );
  });

  it("stays short, with the unknown keys first, whatever the message holds", () => {
    const env = Object.fromEntries(Array.from({ length: 1000 }, (_, index) => [`${"K".repeat(500)}${index}`, index]));
    const state = {
      workspaceId: 1,
      lifecycle: 2,
      lifecycleEnvironment: env,
      ["u".repeat(100_000)]: true,
      "\u001b[2J": 1,
    };
    const { message } = failureOf(() => parseCommandRuntimeMessage(CommandRuntimeStateSchema, state));
    expect(message).toMatch(/^Not a valid Paseo runtime message: Unrecognized keys: "u+…; /);
    expect(message).toMatch(/; and 999 more$/);
    expect(message.length).toBeLessThan(1500);
    expect(message).not.toContain("\u001b");
  });

  it("never shows a value", () => {
    for (const { schema, value } of SAMPLES) {
      const secret = JSON.parse(JSON.stringify(value, (_key, held) => (typeof held === "string" ? "hunter2" : held)));
      const { message } = failureOf(() =>
        parseCommandRuntimeMessage(schemaNamed(schema), { ...secret, unknown: "hunter2" }),
      );
      expect(message).not.toContain("hunter2");
    }
  });
});

import { describe, expect, expectTypeOf, it } from "vitest";
import {
  COMMAND_RUNTIME_PROTOCOL_VERSION,
  type CommandRuntimeDescribeResponse,
  CommandRuntimeDescribeResponseSchema,
  type CommandRuntimeProcessEvent,
  type CommandRuntimeSpawnEnvelope,
  type CommandRuntimeState,
  encodeCommandRuntimeMessage,
  parseCommandRuntimeMessage,
} from "../../src/contract/index.ts";
import { SAMPLES } from "./samples.ts";
import { changedAt, failureOf, SCHEMAS, schemaNamed, strictObjects } from "./support.ts";

const named = SAMPLES.map((sample, index) => [`${sample.schema} ${index}`, sample] as const);

describe("every schema", () => {
  it("is exported, and has samples", () => {
    expect(COMMAND_RUNTIME_PROTOCOL_VERSION).toBe(1);
    expect(Object.keys(SCHEMAS)).toHaveLength(14);
    expect(new Set(SAMPLES.map(({ schema }) => schema))).toEqual(new Set(Object.keys(SCHEMAS)));
  });

  it.each(named)("accepts its sample as it is: %s", (_name, { schema, value }) => {
    expect(parseCommandRuntimeMessage(schemaNamed(schema), value)).toStrictEqual(value);
    expect(encodeCommandRuntimeMessage(schemaNamed(schema), value)).toBe(`${JSON.stringify(value)}\n`);
  });

  it.each(named)("needs each key that is not optional: %s", (_name, { schema, value, optional }) => {
    const missed = new Set(optional);
    for (const path of strictObjects(value)) {
      const object = path.reduce((target, key) => (target as never)[key], value);
      for (const key of Object.keys(object)) {
        const place = [...path, key].join(".");
        const without = changedAt(value, path, (target) => delete target[key]);
        const withUndefined = changedAt(value, path, (target) => {
          target[key] = undefined;
        });
        if (isOptional(place, optional)) {
          missed.delete(place);
          const line = encodeCommandRuntimeMessage(schemaNamed(schema), without);
          expect(encodeCommandRuntimeMessage(schemaNamed(schema), withUndefined)).toBe(line);
          if (key !== "reconcile") expect(line).toBe(`${JSON.stringify(without)}\n`);
        } else {
          failureOf(() => parseCommandRuntimeMessage(schemaNamed(schema), without));
          failureOf(() => parseCommandRuntimeMessage(schemaNamed(schema), withUndefined));
        }
      }
    }
    expect([...missed]).toEqual([]);
  });

  it.each(named)("refuses a value of another type in each place: %s", (_name, { schema, value }) => {
    for (const path of strictObjects(value)) {
      const object = path.reduce((target, key) => (target as never)[key], value) as Record<string, unknown>;
      for (const [key, held] of Object.entries(object)) {
        for (const wrong of [null, true, 1.5, "other", {}, [null]]) {
          if (mayReplace(key, held, wrong)) continue;
          const changed = changedAt(value, path, (target) => {
            target[key] = wrong;
          });
          const { message } = failureOf(() => parseCommandRuntimeMessage(schemaNamed(schema), changed));
          expect(message).toContain(key === "protocolVersion" ? "expected 1" : ` at ${dotted(path)}${key}`);
        }
      }
    }
  });
});

describe("details of the table", () => {
  it.each([
    ["CommandRuntimeLifecycleRequestSchema", { protocolVersion: 1, runtimeInstanceId: "", options: {} }],
    ["CommandRuntimeSpawnEnvelopeSchema", spawnWith({ argv: [] })],
    ["CommandRuntimeSpawnEnvelopeSchema", spawnWith({ execId: "" })],
    ["CommandRuntimeSpawnEnvelopeSchema", spawnWith({ runtimeInstanceId: "" })],
    ["CommandRuntimeSpawnEnvelopeSchema", spawnWith({ env: { A: 1 } })],
    ["CommandRuntimeSpawnEnvelopeSchema", spawnWith({ purpose: { kind: "workspace" } })],
    ["CommandRuntimeStdioSchema", { kind: "pty", rows: 0, cols: 80 }],
    ["CommandRuntimeStdioSchema", { kind: "pty", rows: 24, cols: -80 }],
    ["CommandRuntimeStdioSchema", { kind: "pty", rows: 24.5, cols: 80 }],
    ["CommandRuntimeStdioSchema", { kind: "pipes", rows: 24, cols: 80 }],
    ["CommandRuntimeControlSchema", { type: "resize", protocolVersion: 1, id: -1, rows: 1, cols: 1 }],
    ["CommandRuntimeControlSchema", { type: "resize", protocolVersion: 1, id: 0.5, rows: 1, cols: 1 }],
    ["CommandRuntimeProcessEventSchema", { type: "exit", protocolVersion: 1, code: 0.5, signal: null }],
    ["CommandRuntimeProcessEventSchema", { type: "started" }],
    ["CommandRuntimeDescribeResponseSchema", { protocolVersion: 1, modes: ["tty"] }],
    ["CommandRuntimeDescribeResponseSchema", { protocolVersion: 1, modes: [], reconcile: null }],
    ["CommandRuntimeCreateInputSchema", createWith({ purpose: "user" })],
    ["CommandRuntimeInspectionSchema", { status: "missing", message: "x" }],
    ["CommandRuntimePlacementIntentSchema", { kind: "existing", worktreeSlug: "x" }],
  ])("%s refuses %j", (schema, value) => {
    failureOf(() => parseCommandRuntimeMessage(schemaNamed(schema), value), "request-invalid");
  });

  it.each([
    ["CommandRuntimeDescribeResponseSchema", { protocolVersion: 1, modes: [], reconcile: false }],
    ["CommandRuntimeStdioSchema", { kind: "pty", rows: 70000, cols: 1 }],
    ["CommandRuntimeProcessEventSchema", { type: "exit", protocolVersion: 1, code: -1, signal: "SIGKILL" }],
    ["CommandRuntimeControlSchema", { type: "signal", protocolVersion: 1, signal: "" }],
    [
      "CommandRuntimeLifecycleRequestSchema",
      { protocolVersion: 1, runtimeInstanceId: "a", options: {}, workspaceIds: [] },
    ],
  ])("%s accepts %j", (schema, value) => {
    expect(parseCommandRuntimeMessage(schemaNamed(schema), value)).toStrictEqual(value);
  });

  it("fills in that reconcile is off", () => {
    expect(parseCommandRuntimeMessage(CommandRuntimeDescribeResponseSchema, { protocolVersion: 1, modes: [] })).toEqual(
      {
        protocolVersion: 1,
        modes: [],
        reconcile: false,
      },
    );
  });

  it("infers the types of the table", () => {
    expectTypeOf<CommandRuntimeState>().toEqualTypeOf<{
      workspaceId: string;
      lifecycle: "ready" | "paused";
      lifecycleEnvironment?: Record<string, string> | undefined;
    }>();
    expectTypeOf<CommandRuntimeDescribeResponse["reconcile"]>().toEqualTypeOf<boolean>();
    expectTypeOf<CommandRuntimeSpawnEnvelope["env"]>().toEqualTypeOf<Record<string, string>>();
    expectTypeOf<CommandRuntimeProcessEvent["type"]>().toEqualTypeOf<
      "started" | "eof" | "resized" | "exit" | "error"
    >();
    // @ts-expect-error where a workspace is on the host is not part of its state
    const root = (state: CommandRuntimeState) => state.root;
    expect(root({ workspaceId: "ws-7", lifecycle: "ready" })).toBeUndefined();
  });
});

/** `checkoutRefs.0.remoteName` stands for the same key of every item. */
function isOptional(place: string, optional: string[]): boolean {
  return optional.includes(place) || optional.includes(place.replace(/\.\d+\./, ".0."));
}

/** A path as messages write it, with the dot that comes before the next key. */
function dotted(path: (string | number)[]): string {
  return (
    path
      .map((key) => (typeof key === "number" ? `[${key}]` : key))
      .join(".")
      .replaceAll(".[", "[") + (path.length > 0 ? "." : "")
  );
}

/** Whether `wrong` may stand where `held` stands: same type (a closed set of words is tested below), or null where null is allowed. */
function mayReplace(key: string, held: unknown, wrong: unknown): boolean {
  if (key === "code" || key === "signal") return held === null || wrong === null || typeof held === typeof wrong;
  return !Array.isArray(held) && !Array.isArray(wrong) && wrong !== null && typeof held === typeof wrong;
}

function spawnWith(change: Record<string, unknown>): Record<string, unknown> {
  return { ...SAMPLES.find(({ schema }) => schema === "CommandRuntimeSpawnEnvelopeSchema")?.value, ...change };
}

function createWith(change: Record<string, unknown>): Record<string, unknown> {
  return { ...SAMPLES.find(({ schema }) => schema === "CommandRuntimeCreateInputSchema")?.value, ...change };
}

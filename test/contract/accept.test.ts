import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { acceptsControl, acceptsLifecycleRequest, orderedLifecycleResponse } from "../../src/contract/accept.ts";
import {
  CommandRuntimeControlSchema,
  CommandRuntimeLifecycleRequestSchema,
  CommandRuntimeLifecycleResponseSchema,
  encodeCommandRuntimeMessage,
} from "../../src/contract/index.ts";
import vectors from "./vectors-v1.json" with { type: "json" };

/** The quick checks may be stricter than the schemas, never laxer, and must accept what is usual. */

const text = fc.string();
const map = fc.dictionary(text, text, { maxKeys: 4 });
const odd = fc.oneof(
  fc.constant(undefined),
  fc.constant(null),
  fc.constant(0),
  fc.constant(1.5),
  fc.constant(""),
  fc.constant([]),
  fc.constant({}),
  text,
);
const stdio = fc.oneof(
  fc.constant({ kind: "pipes" }),
  fc.record(
    {
      kind: fc.constant("pty"),
      rows: fc.integer({ min: -1, max: 99 }),
      cols: fc.integer({ min: -1, max: 99 }),
      term: text,
    },
    { requiredKeys: ["kind", "rows", "cols"] },
  ),
);
const spawn = fc.record(
  {
    type: fc.constant("spawn"),
    protocolVersion: fc.constant(1),
    runtimeInstanceId: text,
    argv: fc.array(text, { maxLength: 3 }),
    cwd: text,
    env: map,
    purpose: fc.record({ kind: fc.constantFrom("agent", "terminal", "other") }),
    options: fc.dictionary(text, fc.jsonValue(), { maxKeys: 3 }),
    execId: text,
    stdio,
  },
  {
    requiredKeys: [
      "type",
      "protocolVersion",
      "runtimeInstanceId",
      "argv",
      "env",
      "purpose",
      "options",
      "execId",
      "stdio",
    ],
  },
);
const state = fc.record(
  { workspaceId: text, lifecycle: fc.constantFrom("ready", "paused", "gone"), lifecycleEnvironment: map },
  { requiredKeys: ["workspaceId", "lifecycle"] },
);
const placement = fc.record({ cwd: text });
const response = fc.oneof(
  fc.record({ type: fc.constant("ok"), protocolVersion: fc.constant(1) }),
  fc.record(
    {
      placement,
      protocolVersion: fc.constant(1),
      state,
      type: fc.constant("state"),
      materializedFreshContent: fc.boolean(),
    },
    { requiredKeys: ["type", "protocolVersion", "state", "placement"] },
  ),
  fc.record({
    inspection: fc.oneof(
      fc.constant({ status: "missing" }),
      fc.record({ placement, status: fc.constantFrom("ready", "paused", "missing"), state }),
      fc.record({ status: fc.constant("error"), message: text }),
    ),
    type: fc.constant("inspection"),
    protocolVersion: fc.constant(1),
  }),
);
const request = fc.record(
  {
    protocolVersion: fc.constant(1),
    runtimeInstanceId: text,
    options: fc.dictionary(text, fc.jsonValue(), { maxKeys: 3 }),
    workspaceIds: fc.array(text, { maxLength: 3 }),
  },
  { requiredKeys: ["protocolVersion", "runtimeInstanceId", "options"] },
);

/** A message, or one in which a value somewhere is another or a key too many. */
function damaged(messages: fc.Arbitrary<object>): fc.Arbitrary<unknown> {
  return fc.tuple(messages, fc.nat(40), odd, fc.boolean()).map(([message, at, value, harm]) => {
    if (!harm) return message;
    const copy = structuredClone(message) as Record<string, unknown>;
    const places: [Record<string, unknown>, string][] = [];
    const visit = (node: Record<string, unknown>) => {
      for (const key of Object.keys(node)) {
        places.push([node, key]);
        const child = node[key];
        if (typeof child === "object" && child !== null && !Array.isArray(child))
          visit(child as Record<string, unknown>);
      }
      places.push([node, "extra"]);
    };
    visit(copy);
    const [node, key] = places[at % places.length]!;
    node[key] = value;
    return copy;
  });
}

describe("quick acceptance", () => {
  it.each([
    ["a lifecycle request", request, acceptsLifecycleRequest, CommandRuntimeLifecycleRequestSchema],
    ["a control", spawn, acceptsControl, CommandRuntimeControlSchema],
  ] as const)("of %s says yes only where the schema does", (_, messages, accepts, schema) => {
    let accepted = 0;
    fc.assert(
      fc.property(damaged(messages), (value) => {
        if (!accepts(value)) return;
        accepted += 1;
        expect(schema.safeParse(value)).toMatchObject({ success: true });
      }),
      { numRuns: 2000 },
    );
    expect(accepted).toBeGreaterThan(200);
  });

  it("of a response gives the exact line of the schema", () => {
    let accepted = 0;
    fc.assert(
      fc.property(damaged(response), (value) => {
        const ordered = orderedLifecycleResponse(value);
        if (ordered === undefined) return;
        accepted += 1;
        const line = encodeCommandRuntimeMessage(CommandRuntimeLifecycleResponseSchema, value as never);
        expect(`${JSON.stringify(ordered)}\n`).toBe(line);
      }),
      { numRuns: 2000 },
    );
    expect(accepted).toBeGreaterThan(200);
  });

  it("knows every vector that a warm operation meets", () => {
    for (const { schema, value } of vectors.vectors) {
      if (schema === "CommandRuntimeControlSchema") expect(acceptsControl(value)).toBe(true);
      if (schema === "CommandRuntimeLifecycleResponseSchema") expect(orderedLifecycleResponse(value)).toBeDefined();
      if (schema === "CommandRuntimeLifecycleRequestSchema" && !("input" in value))
        expect(acceptsLifecycleRequest(value)).toBe(true);
    }
  });
});

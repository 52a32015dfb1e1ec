import { deepStrictEqual } from "node:assert/strict";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  createCommandRuntimeMessageDecoder,
  createCommandRuntimeProcessEventDecoder,
  encodeCommandRuntimeMessage,
  parseCommandRuntimeMessage,
  parseLifecycleRequest,
} from "../../src/contract/index.ts";
import { RuntimeError } from "../../src/wire/errors.ts";
import { SAMPLES } from "./samples.ts";
import { SCHEMAS, schemaNamed } from "./support.ts";

const schemas = Object.values(SCHEMAS);
const text = fc.string({ unit: "binary", maxLength: 12 });
const mapKey = fc.oneof(text, fc.constantFrom("__proto__", "constructor", "toJSON", "PATH", "10", "2"));

/** Samples with other texts and other maps in the places where those are free. */
const messageOf = fc.constantFrom(...SAMPLES).chain(({ schema, value }) =>
  fc
    .record({
      free: fc.array(text, { minLength: 1 }),
      env: fc.dictionary(mapKey, text),
      options: fc.dictionary(mapKey, fc.jsonValue()),
    })
    .map(({ free, env, options }) => {
      let next = 0;
      const message: unknown = JSON.parse(
        JSON.stringify(value, (key, held) => {
          if (key === "env" || key === "lifecycleEnvironment") return env;
          if (key === "options") return options;
          const isFree =
            ["path", "url", "message", "cwd", "term", "branchName"].includes(key) && typeof held === "string";
          return isFree ? free[next++ % free.length] : held;
        }),
      );
      return { schema, message };
    }),
);

describe("properties", () => {
  it("the order of keys in the input does not change the bytes", () => {
    fc.assert(
      fc.property(messageOf, fc.infiniteStream(fc.nat()), ({ schema, message }, numbers) => {
        const shuffled = shuffle(message, () => numbers.next().value as number);
        const encoded = encodeCommandRuntimeMessage(schemaNamed(schema), shuffled);
        expect(encoded).toBe(encodeCommandRuntimeMessage(schemaNamed(schema), message));
        expect(JSON.stringify(JSON.parse(encoded))).toBe(encoded.trimEnd());
      }),
      { numRuns: 300 },
    );
  });

  it("a stream that is cut at random decodes to the messages that were encoded", () => {
    const stream = messageOf.chain(({ schema }) =>
      fc.record({
        schema: fc.constant(schema),
        messages: fc.array(
          messageOf.filter((other) => other.schema === schema),
          { maxLength: 4 },
        ),
        cuts: fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 12 }),
        asText: fc.boolean(),
      }),
    );
    fc.assert(
      fc.property(stream, ({ schema, messages, cuts, asText }) => {
        const expected = messages.map(({ message }) => parseCommandRuntimeMessage(schemaNamed(schema), message));
        const encoded = expected.map((message) => encodeCommandRuntimeMessage(schemaNamed(schema), message)).join("");
        const decoder = createCommandRuntimeMessageDecoder(schemaNamed(schema));
        const decoded = split(asText ? encoded : Buffer.from(encoded), cuts).flatMap((chunk) => decoder.push(chunk));
        decoder.finish();
        // Not vitest's toStrictEqual, which asks a map for its `constructor`.
        deepStrictEqual(decoded, expected);
      }),
      { numRuns: 200 },
    );
  });

  it("garbage ends in a RuntimeError or in a valid message, and in nothing else", () => {
    const garbage = fc.oneof(
      fc.anything({
        withBigInt: true,
        withDate: true,
        withMap: true,
        withNullPrototype: true,
        withSet: true,
        withSparseArray: true,
        withTypedArray: true,
      }),
      fc.jsonValue(),
      messageOf.chain(({ message }) => damaged(message)),
    );
    fc.assert(
      fc.property(garbage, (value) => {
        for (const schema of schemas) onlyRuntimeErrors(() => encodeCommandRuntimeMessage(schema, value));
      }),
      { numRuns: 500 },
    );
  });

  it("garbage on a stream ends in a RuntimeError or in valid messages, however it is cut", () => {
    const valid = messageOf.map(({ schema, message }) =>
      Buffer.from(encodeCommandRuntimeMessage(schemaNamed(schema), message)),
    );
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 200 }),
      fc.string({ unit: "binary" }).map((string) => Buffer.from(string)),
      fc.tuple(valid, fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 4 })).map(([line, changes]) => {
        for (const [at, byte] of changes) line[at % line.length] = byte;
        return line;
      }),
    );
    fc.assert(
      fc.property(bytes, fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 5 }), (stream, cuts) => {
        for (const decoder of [
          ...schemas.map((schema) => createCommandRuntimeMessageDecoder(schema)),
          createCommandRuntimeProcessEventDecoder("pty"),
        ]) {
          onlyRuntimeErrors(() => {
            for (const chunk of split(stream, cuts)) decoder.push(chunk);
            decoder.finish();
          });
        }
        onlyRuntimeErrors(() => parseLifecycleRequest(stream));
        onlyRuntimeErrors(() => parseLifecycleRequest(Buffer.from(stream).toString("latin1")));
      }),
      { numRuns: 500 },
    );
  });
});

function onlyRuntimeErrors(action: () => unknown): void {
  try {
    action();
  } catch (error) {
    if (!(error instanceof RuntimeError)) throw error;
  }
}

/** The same value with the keys of its strict objects in another order; maps keep theirs, which is part of their bytes. */
function shuffle(value: unknown, random: () => number): unknown {
  if (Array.isArray(value)) return value.map((item) => shuffle(item, random));
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).map(([key, held]): [string, unknown, number] => [
    key,
    ["options", "env", "lifecycleEnvironment"].includes(key) ? held : shuffle(held, random),
    random(),
  ]);
  return Object.fromEntries(entries.sort((left, right) => left[2] - right[2]).map(([key, held]) => [key, held]));
}

/** A message in which one value somewhere was replaced by something arbitrary. */
function damaged(message: unknown): fc.Arbitrary<unknown> {
  return fc.tuple(fc.nat(), fc.jsonValue()).map(([at, replacement]) => {
    let count = 0;
    const places = JSON.stringify(message).split(":").length;
    return JSON.parse(
      JSON.stringify(message, (key, held) => (key !== "" && count++ === at % places ? replacement : held)),
    ) as unknown;
  });
}

/** `whole` in pieces; the cuts are fractions of its length. */
function split<Whole extends string | Uint8Array>(whole: Whole, cuts: number[]): (string | Uint8Array)[] {
  const places = [
    0,
    ...cuts.map((cut) => Math.round(cut * whole.length)).sort((left, right) => left - right),
    whole.length,
  ];
  return places.slice(1).map((end, index) => whole.slice(places[index], end));
}

import * as z from "zod/mini";

/** Any value that JSON can carry. */
export type JsonValue = string | number | boolean | null | JsonValue[] | { [key: string]: JsonValue };

/**
 * Deepest nesting inside a map of options. Levels. Everything that walks a value recursively (JSON.stringify, a deep
 * copy) overflows the stack on a few thousand levels, and no real option has more than a handful.
 */
const MAX_JSON_DEPTH = 64;

/**
 * Names and values of environment variables. Any name is a key, also `__proto__` and `constructor`: z.record would
 * strip the first without a word, and the contract says that a workload gets exactly the given environment. So the
 * parsed map is the input itself: nothing is assigned, no prototype can change, and the keys keep their order.
 * A reader uses Object.hasOwn or Object.entries; `{ ...map }` is safe, Object.assign onto an ordinary object is not.
 */
export const EnvironmentSchema = mapOf<string>((value) => (typeof value === "string" ? undefined : "a string"));

/** What the runtime's options in Paseo's configuration hold; the same rules as for EnvironmentSchema. */
export const OptionsSchema = mapOf<JsonValue>((value) =>
  isJson(value, MAX_JSON_DEPTH) ? undefined : `a JSON value nested at most ${MAX_JSON_DEPTH} deep`,
);

/** @param expectation what `value` should have been, or nothing when it is right */
function mapOf<Value>(expectation: (value: unknown) => string | undefined) {
  return z
    .custom<Record<string, Value>>(isPlainObject, { error: "Invalid input: expected a map", abort: true })
    .check((payload) => {
      const map: Record<string, unknown> = payload.value;
      for (const key of Object.keys(map)) {
        const expected = expectation(map[key]);
        if (expected === undefined) continue;
        payload.issues.push({
          code: "custom",
          input: undefined,
          path: [key],
          message: `Invalid input: expected ${expected}`,
        });
      }
    });
}

function isJson(value: unknown, depth: number): boolean {
  if (value === null || typeof value === "string" || typeof value === "boolean") return true;
  if (typeof value === "number") return Number.isFinite(value);
  if (depth === 0) return false;
  // Array.from turns holes into undefined, which `every` alone would skip and JSON.stringify would turn into null.
  if (Array.isArray(value)) return Array.from(value).every((item) => isJson(item, depth - 1));
  return isPlainObject(value) && Object.values(value).every((item) => isJson(item, depth - 1));
}

/** An object as JSON.parse or a literal makes it, in any realm; not a Date, a Map or an instance of a class. */
function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

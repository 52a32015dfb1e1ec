import * as z from "zod/mini";
import { isJson, isPlainObject, type JsonValue, MAX_JSON_DEPTH } from "./json-values.ts";

export type { JsonValue };

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

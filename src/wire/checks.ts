import type { ErrorData } from "./errors.ts";

/**
 * Checks of JSON values by hand, for what wrappers receive: a schema costs them more to build than they have time for.
 * Each throws an Error whose message is the name of what is wrong.
 */

export type Fields = Record<string, unknown>;

/** An object with these keys and no other. */
export function fields(value: unknown, ...names: string[]): Fields {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error("not an object");
  for (const key of Object.keys(value)) {
    if (!names.includes(key)) throw new Error(key);
  }
  return value as Fields;
}

/** @param most characters */
export function textOf(value: Fields, name: string, most: number): string {
  const text = value[name];
  if (typeof text !== "string" || text.length > most) throw new Error(name);
  return text;
}

/** A whole number that is not negative. */
export function countOf(value: Fields, name: string): number {
  const count = value[name];
  if (!Number.isSafeInteger(count) || (count as number) < 0) throw new Error(name);
  return count as number;
}

export function errorDataOf(value: unknown): ErrorData {
  const data = fields(value, "code", "message", "remedy");
  return {
    // A newer peer may know more codes; RuntimeError.fromData decides what becomes of those.
    code: textOf(data, "code", 64) as ErrorData["code"],
    message: textOf(data, "message", 8192),
    remedy: textOf(data, "remedy", 8192),
  };
}

export function seqOf(value: unknown): { seq: number } {
  return { seq: countOf(fields(value, "seq"), "seq") };
}

/** What JSON can carry, checked without schemas. */

/** Any value that JSON can carry. */
export type JsonValue = string | number | boolean | null | JsonValue[] | { [key: string]: JsonValue };

/**
 * Deepest nesting inside a map of options. Levels. Everything that walks a value recursively (JSON.stringify, a deep
 * copy) overflows the stack on a few thousand levels, and no real option has more than a handful.
 */
export const MAX_JSON_DEPTH = 64;

/** @param depth levels of nesting that are allowed */
export function isJson(value: unknown, depth: number): boolean {
  if (value === null || typeof value === "string" || typeof value === "boolean") return true;
  if (typeof value === "number") return Number.isFinite(value);
  if (depth === 0) return false;
  // Array.from turns holes into undefined, which `every` alone would skip and JSON.stringify would turn into null.
  if (Array.isArray(value)) return Array.from(value).every((item) => isJson(item, depth - 1));
  return isPlainObject(value) && Object.values(value).every((item) => isJson(item, depth - 1));
}

/** An object as JSON.parse or a literal makes it, in any realm; not a Date, a Map or an instance of a class. */
export function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

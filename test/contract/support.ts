import { expect } from "vitest";
import * as contract from "../../src/contract/index.ts";
import { type ErrorCode, RuntimeError } from "../../src/wire/errors.ts";

/** Every schema of the contract under its exported name. */
export const SCHEMAS = Object.fromEntries(
  Object.entries(contract).filter(([name]) => name.endsWith("Schema")),
) as unknown as Record<string, contract.CommandRuntimeMessageSchema<unknown>>;

export function schemaNamed(name: string): contract.CommandRuntimeMessageSchema<unknown> {
  const schema = SCHEMAS[name];
  if (schema === undefined) throw new Error(`No schema is exported as ${name}`);
  return schema;
}

/** The RuntimeError that `action` throws; anything else that happens fails the test. */
export function failureOf(action: () => unknown, code?: ErrorCode): RuntimeError {
  let thrown: unknown;
  try {
    action();
  } catch (error) {
    thrown = error;
  }
  expect(thrown).toBeInstanceOf(RuntimeError);
  const failure = thrown as RuntimeError;
  if (code !== undefined) expect(failure.code, failure.message).toBe(code);
  return failure;
}

type Path = (string | number)[];

/** Keys whose values are maps: what stands below them is free, everything else is strict. */
const MAPS = ["options", "env", "lifecycleEnvironment"];

/** The paths of all strict objects in a message, the message itself included. */
export function strictObjects(value: unknown, path: Path = []): Path[] {
  if (typeof value !== "object" || value === null) return [];
  const below = Object.entries(value)
    .filter(([key]) => !MAPS.includes(key))
    .flatMap(([key, child]) => strictObjects(child, [...path, Array.isArray(value) ? Number(key) : key]));
  return Array.isArray(value) ? below : [path, ...below];
}

/** A deep copy of `value` in which `change` has been applied to the object at `path`. */
export function changedAt<Value>(value: Value, path: Path, change: (target: Record<string, unknown>) => void): Value {
  const copy = structuredClone(value);
  let target = copy as Record<string, unknown>;
  for (const key of path) target = target[key] as Record<string, unknown>;
  change(target);
  return copy;
}

/** An own key whatever its name: a plain assignment of `__proto__` would set the prototype instead. */
export function setOwn(target: object, key: string, value: unknown): void {
  Object.defineProperty(target, key, { value, enumerable: true, writable: true, configurable: true });
}

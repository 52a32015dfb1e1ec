import { RuntimeError } from "../../wire/errors.ts";
import type { OperationResult } from "../consumer/index.ts";

/** Judging what the wrapper did. */

/**
 * @returns standard output without its last newline
 * @throws RuntimeError what the wrapper said when it failed
 */
export function outputOf(operation: string, result: OperationResult): string {
  if (result.code !== 0 || result.stderr !== "") throw failureOf(operation, result);
  return result.stdout.replace(/\n$/, "");
}

/** What a wrapper that failed says on standard error: one sentence or two, and a code in brackets. */
export function failureOf(
  operation: string,
  { code, signal, stderr }: Pick<OperationResult, "code" | "signal" | "stderr">,
): RuntimeError {
  const [, message, errorCode] = /^(.*) \[([a-z-]+)\]\n$/.exec(stderr) ?? [];
  if (message !== undefined && errorCode !== undefined) {
    return RuntimeError.fromData({ code: errorCode, message: `${operation} failed: ${message}`, remedy: "" });
  }
  return new RuntimeError(
    "internal",
    `${operation} ended with ${signal ?? `exit ${code}`}: ${stderr || "no reason given"}`,
  );
}

/** @throws RuntimeError internal */
export function expectSame(operation: string, actual: string, expected: string): void {
  if (actual !== expected) throw unexpected(operation, actual, expected);
}

export function unexpected(operation: string, actual: string, expected: string): RuntimeError {
  return new RuntimeError(
    "internal",
    `${operation} gave ${JSON.stringify(actual)} where ${JSON.stringify(expected)} was expected`,
    "Please report this",
  );
}

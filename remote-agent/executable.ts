import { accessSync, closeSync, constants, openSync, readSync } from "node:fs";
import { resolve } from "node:path";
import { RuntimeError } from "../src/wire/errors.ts";
import type { LaunchSpec } from "./workload.ts";

/** Longest word of argv or of the environment on Linux with its NUL, in bytes (execve(2), MAX_ARG_STRLEN). */
const MAX_WORD_BYTES = 128 * 1024;
/** How much of a script's first line the kernel reads, in bytes (execve(2)). */
const FIRST_LINE_BYTES = 255;

/** @param reason name of an errno, when the system gave one */
export function executionRefused(spec: LaunchSpec, reason: string | undefined): RuntimeError {
  return new RuntimeError(
    "spawn-failed",
    `The system refused to execute ${spec.program}${reason === undefined ? "" : ` (${reason})`}`,
    "Check that its interpreter exists and that argv and environment are not too long",
  );
}

/**
 * Finds beforehand what execve(2) would refuse. For a process on a terminal there is no other way: node-pty's child
 * writes the reason to the terminal and exits with 1, as a program could.
 * @throws RuntimeError spawn-failed
 */
export function requireExecutable(spec: LaunchSpec): void {
  if (process.platform === "linux") {
    const words = [...spec.argv, ...Object.entries(spec.env).map(([name, value]) => `${name}=${value}`)];
    if (words.some((word) => Buffer.byteLength(word) >= MAX_WORD_BYTES)) throw executionRefused(spec, "E2BIG");
  }
  const interpreter = interpreterOf(spec.program);
  if (interpreter === undefined) return;
  try {
    accessSync(resolve(spec.cwd, interpreter), constants.X_OK);
  } catch (error) {
    throw executionRefused(spec, (error as NodeJS.ErrnoException).code);
  }
}

/** What follows `#!`; undefined for a binary, and for a script that may be executed but not read. */
function interpreterOf(program: string): string | undefined {
  let file: number;
  try {
    file = openSync(program, "r");
  } catch {
    return undefined;
  }
  try {
    const bytes = Buffer.alloc(FIRST_LINE_BYTES);
    const text = bytes.toString("utf8", 0, readSync(file, bytes));
    return /^#![ \t]*([^\s]+)/.exec(text)?.[1];
  } finally {
    closeSync(file);
  }
}

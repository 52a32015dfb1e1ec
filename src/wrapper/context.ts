import { isatty } from "node:tty";
import { parseLifecycleRequest, MAX_LIFECYCLE_REQUEST_BYTES, type CommandRuntimeLifecycleRequest } from "../contract/index.ts";
import { parseRuntimeOptions, type RuntimeOptions } from "../ssh/options.ts";
import type { DialCaller } from "../wire/dial.ts";
import { callerEnvironment } from "./dial.ts";
import { readToEnd, writeAll } from "./synchronous-io.ts";

/** What every operation needs to reach its host. */
export interface RuntimeContext {
  options: RuntimeOptions;
  /** As they came; the broker validates them again. */
  rawOptions: Record<string, unknown>;
  caller: DialCaller;
  /** Shows a person what takes time. */
  progress(text: string): void;
}

const STDIN = 0;
const STDERR = 2;

export function createContext(rawOptions: Record<string, unknown>): RuntimeContext {
  return {
    options: parseRuntimeOptions(rawOptions),
    rawOptions,
    caller: callerEnvironment(process.env),
    progress: isatty(STDERR) ? (text) => writeAll(STDERR, `${text}\n`) : () => {},
  };
}

/** Reads the one request of an operation from standard input. */
export function readLifecycleRequest(): { request: CommandRuntimeLifecycleRequest; context: RuntimeContext } {
  const bytes = readToEnd(STDIN, MAX_LIFECYCLE_REQUEST_BYTES);
  const request = parseLifecycleRequest(bytes);
  return { request, context: createContext(request.options) };
}

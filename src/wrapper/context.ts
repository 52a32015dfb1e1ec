import { acceptRuntimeOptions, type WrapperOptions } from "../ssh/accept-options.ts";
import type { DialCaller } from "../wire/dial.ts";
import { loadBundle } from "./bundles.ts";
import { callerEnvironment } from "./dial.ts";
import { writeAll } from "./synchronous-io.ts";

/** What every operation needs to reach its host. */
export interface RuntimeContext {
  options: WrapperOptions;
  /** As they came; the broker validates them again. */
  rawOptions: Record<string, unknown>;
  caller: DialCaller;
  /** Shows a person what takes time. */
  progress(text: string): void;
}

const STDERR = 2;

/** @throws RuntimeError option-missing, option-unknown, option-invalid */
export function createContext(rawOptions: Record<string, unknown>): RuntimeContext {
  return {
    options: acceptRuntimeOptions(rawOptions) ?? loadBundle("contract").parseRuntimeOptions(rawOptions),
    rawOptions,
    caller: callerEnvironment(process.env),
    progress: showProgress,
  };
}

function showProgress(text: string): void {
  // Loaded here, since most operations have nothing to show.
  if (process.getBuiltinModule("node:tty").isatty(STDERR)) writeAll(STDERR, `${text}\n`);
}

import type { CommandRuntimeLifecycleRequest } from "../contract/lifecycle.ts";
import { MAX_LIFECYCLE_REQUEST_BYTES, parseLifecycleRequest } from "../contract/lifecycle-request.ts";
import { createContext, type RuntimeContext } from "./context.ts";
import { readToEnd } from "./synchronous-io.ts";

const STDIN = 0;

/** Reads the one request of an operation from standard input. */
export function readLifecycleRequest(): { request: CommandRuntimeLifecycleRequest; context: RuntimeContext } {
  const bytes = readToEnd(STDIN, MAX_LIFECYCLE_REQUEST_BYTES);
  const request = parseLifecycleRequest(bytes);
  return { request, context: createContext(request.options) };
}

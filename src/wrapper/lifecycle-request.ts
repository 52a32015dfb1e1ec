import { acceptsLifecycleRequest } from "../contract/accept.ts";
import type { CommandRuntimeLifecycleRequest } from "../contract/lifecycle.ts";
import { loadBundle } from "./bundles.ts";
import { createContext, type RuntimeContext } from "./context.ts";
import { readToEnd } from "./synchronous-io.ts";

const STDIN = 0;
/** The contract's bound; the schema's side checks it again, and reports it. */
const MAX_REQUEST_BYTES = 8 * 1024 * 1024;

/** Reads the one request of an operation from standard input. */
export function readLifecycleRequest(): { request: CommandRuntimeLifecycleRequest; context: RuntimeContext } {
  const bytes = readToEnd(STDIN, MAX_REQUEST_BYTES);
  const request = acceptQuickly(bytes) ?? loadBundle("contract").parseLifecycleRequest(bytes);
  return { request, context: createContext(request.options) };
}

function acceptQuickly(bytes: Buffer): CommandRuntimeLifecycleRequest | undefined {
  if (bytes.length > MAX_REQUEST_BYTES) return undefined;
  try {
    const text = bytes.toString("utf8");
    // Bytes that are not UTF-8 have become replacement characters; the other side tells them from real ones.
    if (text.includes("\ufffd")) return undefined;
    const value: unknown = JSON.parse(text);
    return acceptsLifecycleRequest(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

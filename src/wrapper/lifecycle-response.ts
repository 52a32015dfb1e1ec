import { orderedLifecycleResponse } from "../contract/accept.ts";
import type { CommandRuntimeLifecycleResponse } from "../contract/lifecycle.ts";
import { loadBundle } from "./bundles.ts";

/**
 * The line for standard output. The message comes from another machine, so it is checked like any input.
 * @throws RuntimeError internal when it is not what the contract says
 */
export function encodeLifecycleResponse(response: CommandRuntimeLifecycleResponse): string {
  const ordered = orderedLifecycleResponse(response);
  if (ordered !== undefined) return `${JSON.stringify(ordered)}\n`;
  const { encodeCommandRuntimeMessage, CommandRuntimeLifecycleResponseSchema } = loadBundle("contract");
  return encodeCommandRuntimeMessage(CommandRuntimeLifecycleResponseSchema, response);
}

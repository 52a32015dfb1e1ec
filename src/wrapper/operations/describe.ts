import { CommandRuntimeDescribeResponseSchema, encodeCommandRuntimeMessage } from "../../contract/index.ts";

/** What this runtime can do. Reads nothing and reaches nobody, so that Paseo can ask before any host is up. */
export function describe(): string {
  return encodeCommandRuntimeMessage(CommandRuntimeDescribeResponseSchema, {
    protocolVersion: 1,
    modes: ["pipes", "pty"],
    reconcile: true,
  });
}

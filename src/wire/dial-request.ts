import * as z from "zod/mini";
import type { DialRequest } from "./dial.ts";

/** The broker's check of what a wrapper asks; apart from dial.ts, which wrappers load without any schema. */

const DialRequestSchema = z.discriminatedUnion("type", [
  z.strictObject({
    type: z.literal("dial"),
    options: z.record(z.string(), z.unknown()),
    caller: z.strictObject({
      HOME: z.optional(z.string()),
      PATH: z.optional(z.string()),
      SSH_AUTH_SOCK: z.optional(z.string()),
      DBUS_SESSION_BUS_ADDRESS: z.optional(z.string()),
      XDG_RUNTIME_DIR: z.optional(z.string()),
    }),
    session: z.optional(z.string()),
    patienceMs: z.optional(z.int()),
  }),
  z.strictObject({ type: z.literal("status") }),
  z.strictObject({ type: z.literal("stop") }),
]);

/** @throws Error when it is no request */
export function parseDialRequest(line: string): DialRequest {
  return DialRequestSchema.parse(JSON.parse(line));
}

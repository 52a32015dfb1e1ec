import * as z from "zod/mini";
import { ProtocolVersionSchema } from "./version.ts";

export const CommandRuntimeDescribeResponseSchema = z.strictObject({
  protocolVersion: ProtocolVersionSchema,
  modes: z.array(z.literal(["pipes", "pty"])),
  reconcile: z._default(z.boolean(), false),
});
export type CommandRuntimeDescribeResponse = z.infer<typeof CommandRuntimeDescribeResponseSchema>;

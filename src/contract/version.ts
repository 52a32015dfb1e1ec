import * as z from "zod/mini";

/** The one protocol version of the command runtime contract that this product speaks. */
export const COMMAND_RUNTIME_PROTOCOL_VERSION = 1;

export const ProtocolVersionSchema = z.literal(COMMAND_RUNTIME_PROTOCOL_VERSION);

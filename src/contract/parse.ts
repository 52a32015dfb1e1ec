import type * as z from "zod/mini";
import { type ErrorCode, RuntimeError } from "../wire/errors.ts";
import { describeIssues } from "./issues.ts";
import { COMMAND_RUNTIME_PROTOCOL_VERSION } from "./version.ts";

/** A schema of this folder, seen by what it validates. */
export type CommandRuntimeMessageSchema<Message> = z.ZodMiniType<Message>;

/**
 * Validates `value` as a contract message.
 *
 * @param code the code of the error when the message is invalid; who sent it decides which one is right
 * @returns the message with its keys in the contract's order and its defaults filled in
 * @throws RuntimeError `protocol-version-unsupported` when the message has another protocol version, whatever else is
 *   wrong with it (other versions have other keys); otherwise `code`, with what is wrong where
 */
export function parseCommandRuntimeMessage<Message>(
  schema: CommandRuntimeMessageSchema<Message>,
  value: unknown,
  code: ErrorCode = "request-invalid",
): Message {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  if (declaresProtocolVersion(schema)) refuseOtherVersion(value);
  throw new RuntimeError(code, `Not a valid Paseo runtime message: ${describeIssues(result.error.issues)}`);
}

function declaresProtocolVersion(schema: z.core.$ZodType): boolean {
  const { def } = (schema as z.core.$ZodTypes)._zod;
  if (def.type === "object") return Object.hasOwn(def.shape, "protocolVersion");
  return def.type === "union" && def.options.some(declaresProtocolVersion);
}

function refuseOtherVersion(value: unknown): void {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, "protocolVersion")) return;
  const received = (value as { protocolVersion: unknown }).protocolVersion;
  if (received === COMMAND_RUNTIME_PROTOCOL_VERSION) return;
  throw new RuntimeError(
    "protocol-version-unsupported",
    `Protocol version ${versionText(received)} is not supported: expected ${COMMAND_RUNTIME_PROTOCOL_VERSION}`,
    `Use releases of Paseo and paseo-ssh-runtime that both speak version ${COMMAND_RUNTIME_PROTOCOL_VERSION} of the command runtime contract`,
  );
}

/** A version as it was received, unless it is so odd that repeating it would help nobody. */
function versionText(received: unknown): string {
  if (typeof received === "number" || received === null) return String(received);
  return typeof received === "string" && received.length <= 20
    ? JSON.stringify(received)
    : `of type ${typeof received}`;
}

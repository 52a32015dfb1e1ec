import type * as z from "zod/mini";
import type { ErrorCode } from "../wire/errors.ts";
import { parseCommandRuntimeMessage } from "./parse.ts";

/**
 * One message as the contract's exact bytes: validated, one line of JSON with its newline, keys in the contract's order.
 *
 * @param code the code of the error when the value is invalid; by default `internal`, as it is a bug of the caller
 * @throws RuntimeError `protocol-version-unsupported`, or `code`
 */
export function encodeCommandRuntimeMessage<Schema extends z.ZodMiniType>(
  schema: Schema,
  value: z.input<Schema>,
  code: ErrorCode = "internal",
): string {
  return `${JSON.stringify(parseCommandRuntimeMessage(schema, value, code))}\n`;
}

import { RuntimeError } from "../wire/errors.ts";
import { parseJson } from "./json.ts";
import { type CommandRuntimeLifecycleRequest, CommandRuntimeLifecycleRequestSchema } from "./lifecycle.ts";
import { parseCommandRuntimeMessage } from "./parse.ts";
import { decodeUtf8 } from "./utf8.ts";

/** Longest lifecycle request. Bytes. The long ones are those of `reconcile`, where 8 MiB hold 200,000 workspace ids. */
export const MAX_LIFECYCLE_REQUEST_BYTES = 8 * 1024 * 1024;

const SUBJECT = "The lifecycle request on stdin";
const CODE = "request-invalid";

/**
 * @param input all of stdin; who reads it stops after MAX_LIFECYCLE_REQUEST_BYTES, so that a longer one is never in memory
 * @throws RuntimeError `request-invalid` when it is not exactly one valid request, `protocol-version-unsupported` when it
 *   is one of another protocol version
 */
export function parseLifecycleRequest(input: string | Uint8Array): CommandRuntimeLifecycleRequest {
  const bytes = typeof input === "string" ? Buffer.byteLength(input) : input.length;
  if (bytes > MAX_LIFECYCLE_REQUEST_BYTES) {
    throw new RuntimeError(CODE, `${SUBJECT} is longer than ${MAX_LIFECYCLE_REQUEST_BYTES} bytes`);
  }
  const text = typeof input === "string" ? input : decodeUtf8(input, SUBJECT, CODE);
  if (text.trim() === "") throw new RuntimeError(CODE, `${SUBJECT} is missing: stdin ended without a JSON value`);
  return parseCommandRuntimeMessage(CommandRuntimeLifecycleRequestSchema, parseJson(text, SUBJECT, CODE), CODE);
}

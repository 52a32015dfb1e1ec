import {
  type CommandRuntimeLifecycleResponse,
  CommandRuntimeLifecycleResponseSchema,
  parseCommandRuntimeMessage,
} from "../../contract/index.ts";
import { RuntimeError } from "../../wire/errors.ts";
import { type Installation, type OperationResult, runOperation } from "../consumer/index.ts";

/** Judging what a wrapper did, and waiting for it no longer than a person would. */

/** For one operation, in ms. A wrapper has limits of its own; this one is for whatever they do not cover. */
const LIMIT_MS = 60_000;

/**
 * What a wrapper that failed said. Its line has cause and remedy in one, which nobody can tell apart any more, so both
 * are the message.
 */
export function failureOf(operation: string, { code, signal, stderr }: Omit<OperationResult, "stdout">): RuntimeError {
  const [, message, errorCode] = /^(.*) \[([a-z-]+)\]\n$/.exec(stderr) ?? [];
  if (message !== undefined && errorCode !== undefined) {
    return RuntimeError.fromData({ code: errorCode, message, remedy: "" });
  }
  const end = signal ?? `exit ${code}`;
  return new RuntimeError(
    "internal",
    `${operation} ended with ${end} and other output than it should have: ${stderr || "none on standard error"}`,
    "Please report this",
  );
}

/** @throws RuntimeError what the wrapper said */
export async function lifecycleAnswer(
  installation: Installation,
  operation: string,
  workspaceId: string,
  extra: Record<string, unknown>,
): Promise<CommandRuntimeLifecycleResponse> {
  return await withinLimit(operation, installation, async (limited) => {
    const result = await runOperation(limited, [operation, "--workspace-id", workspaceId], extra);
    if (result.code !== 0) throw failureOf(operation, result);
    return parseCommandRuntimeMessage(CommandRuntimeLifecycleResponseSchema, JSON.parse(result.stdout), "internal");
  });
}

/** @throws RuntimeError connection-timeout when the action had to be ended */
export async function withinLimit<Value>(
  operation: string,
  installation: Installation,
  action: (installation: Installation) => Promise<Value>,
): Promise<Value> {
  const limit = AbortSignal.timeout(LIMIT_MS);
  const { abortSignal } = installation;
  const either = abortSignal === undefined ? limit : AbortSignal.any([abortSignal, limit]);
  try {
    return await action({ ...installation, abortSignal: either });
  } catch (error) {
    if (!limit.aborted) throw error;
    throw new RuntimeError(
      "connection-timeout",
      `The operation ${operation} did not end within ${LIMIT_MS / 1000} s`,
      "Look at logs/agent.log below the root on the host",
      { cause: error },
    );
  }
}

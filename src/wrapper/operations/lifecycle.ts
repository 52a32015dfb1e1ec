import {
  type CommandRuntimeLifecycleResponse,
  CommandRuntimeLifecycleResponseSchema,
  encodeCommandRuntimeMessage,
} from "../../contract/index.ts";
import { callLifecycle } from "../call.ts";
import { readLifecycleRequest } from "../context.ts";
import { findHelper, supplyHelper, workspaceShape } from "../helper.ts";

/** The operations that ask the agent one question and print its answer. */

export async function inspectOrResume(op: "inspect" | "resume", workspaceId: string): Promise<string> {
  const { request, context } = readLifecycleRequest();
  const helper = findHelper(context.options);
  const shape = workspaceShape(context.options, helper);
  const { runtimeInstanceId } = request;
  return encode(await callLifecycle(context, { op, workspaceId, runtimeInstanceId, ...shape }, supplyHelper(helper)));
}

export async function pauseOrDestroy(op: "pause" | "destroy", workspaceId: string): Promise<string> {
  const { request, context } = readLifecycleRequest();
  return encode(await callLifecycle(context, { op, workspaceId, runtimeInstanceId: request.runtimeInstanceId }));
}

export async function reconcile(): Promise<string> {
  const { request, context } = readLifecycleRequest();
  return encode(
    await callLifecycle(context, {
      op: "reconcile",
      runtimeInstanceId: request.runtimeInstanceId,
      workspaceIds: request.workspaceIds ?? [],
    }),
  );
}

/** Ends with an answer of its own, which the consumer does not read. */
export async function signal(workspaceId: string, execId: string, name: string): Promise<string> {
  const { request, context } = readLifecycleRequest();
  const { runtimeInstanceId } = request;
  await callLifecycle(context, { op: "signal", workspaceId, runtimeInstanceId, execId, signal: name });
  return "";
}

export function encode(response: CommandRuntimeLifecycleResponse): string {
  return encodeCommandRuntimeMessage(CommandRuntimeLifecycleResponseSchema, response);
}

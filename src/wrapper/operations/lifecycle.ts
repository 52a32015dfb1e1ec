import type { Invocation } from "../arguments.ts";
import { callLifecycle } from "../call.ts";
import { findHelper, supplyHelper, workspaceShape } from "../helper.ts";
import { readLifecycleRequest } from "../lifecycle-request.ts";
import { encodeLifecycleResponse } from "../lifecycle-response.ts";

/** The operations that ask the agent one question and print its answer. */

export async function performLifecycle(
  invocation: Exclude<Invocation, { operation: "exec" | "create" | "describe" }>,
): Promise<string> {
  switch (invocation.operation) {
    case "inspect":
    case "resume":
      return await inspectOrResume(invocation.operation, invocation.workspaceId);
    case "pause":
    case "destroy":
      return await pauseOrDestroy(invocation.operation, invocation.workspaceId);
    case "reconcile":
      return await reconcile();
    case "signal":
      return await signal(invocation.workspaceId, invocation.execId, invocation.signal);
  }
}

async function inspectOrResume(op: "inspect" | "resume", workspaceId: string): Promise<string> {
  const { request, context } = readLifecycleRequest();
  const helper = findHelper(context.options);
  const shape = workspaceShape(context.options, helper);
  const { runtimeInstanceId } = request;
  return encodeLifecycleResponse(
    await callLifecycle(context, { op, workspaceId, runtimeInstanceId, ...shape }, supplyHelper(helper)),
  );
}

async function pauseOrDestroy(op: "pause" | "destroy", workspaceId: string): Promise<string> {
  const { request, context } = readLifecycleRequest();
  return encodeLifecycleResponse(
    await callLifecycle(context, { op, workspaceId, runtimeInstanceId: request.runtimeInstanceId }),
  );
}

async function reconcile(): Promise<string> {
  const { request, context } = readLifecycleRequest();
  return encodeLifecycleResponse(
    await callLifecycle(context, {
      op: "reconcile",
      runtimeInstanceId: request.runtimeInstanceId,
      workspaceIds: request.workspaceIds ?? [],
    }),
  );
}

/** Ends with an answer of its own, which the consumer does not read. */
async function signal(workspaceId: string, execId: string, name: string): Promise<string> {
  const { request, context } = readLifecycleRequest();
  const { runtimeInstanceId } = request;
  await callLifecycle(context, { op: "signal", workspaceId, runtimeInstanceId, execId, signal: name });
  return "";
}

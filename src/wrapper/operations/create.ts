import type { CommandRuntimeCreateInput, CommandRuntimeProjectSource } from "../../contract/lifecycle.ts";
import { RuntimeError } from "../../wire/errors.ts";
import type { CreateRequest } from "../../wire/from-client.ts";
import { loadBundle } from "../bundles.ts";
import { callLifecycle, type Suppliers } from "../call.ts";
import type { RuntimeContext } from "../context.ts";
import { requireHelper, supplyHelper, workspaceShape } from "../helper.ts";
import { readLifecycleRequest } from "../lifecycle-request.ts";
import { encodeLifecycleResponse } from "../lifecycle-response.ts";
import { newSession } from "../session.ts";

/** Creates a workspace. The host is asked first: when the workspace is there already, the local source is not read. */
export async function create(workspaceId: string): Promise<string> {
  const { request, context } = readLifecycleRequest();
  const { input } = request;
  if (input === undefined) throw invalid('The create request has no "input"');
  if (input.workspaceId !== workspaceId) {
    throw invalid(
      `The create request is for workspace ${JSON.stringify(input.workspaceId)}, the command line for ${JSON.stringify(workspaceId)}`,
    );
  }
  const helper = requireHelper(context.options);
  const abort = new AbortController();
  try {
    return encodeLifecycleResponse(
      await callLifecycle(
        context,
        { ...(await createRequest(input, request.runtimeInstanceId)), ...workspaceShape(context.options, helper) },
        { ...supplyHelper(helper), ...supplySource(input, context, abort.signal) },
      ),
    );
  } finally {
    abort.abort();
  }
}

async function createRequest(
  input: CommandRuntimeCreateInput,
  runtimeInstanceId: string,
): Promise<Omit<CreateRequest, "environment">> {
  const { project, placement, markFirstAgentBranchAutoName, seedPaseoConfigFrom } = input;
  const workspace = loadBundle("workspace");
  const configFolder = seedPaseoConfigFrom ?? (project.source.kind === "directory" ? project.source.path : undefined);
  const paseoConfig = configFolder === undefined ? undefined : await workspace.readPaseoConfig(configFolder);
  return {
    op: "create",
    session: newSession(),
    workspaceId: input.workspaceId,
    runtimeInstanceId,
    source: sourceOnWire(project.source, workspace.sourceKey),
    placement,
    ...(markFirstAgentBranchAutoName === undefined ? {} : { markFirstAgentBranchAutoName }),
    ...(paseoConfig === undefined ? {} : { paseoConfig }),
  };
}

function sourceOnWire(
  source: CommandRuntimeProjectSource,
  sourceKey: (path: string) => string,
): CreateRequest["source"] {
  return source.kind === "git" ? source : { kind: "directory", key: sourceKey(source.path), label: source.path };
}

function supplySource(input: CommandRuntimeCreateInput, context: RuntimeContext, signal: AbortSignal): Suppliers {
  const { source } = input.project;
  if (source.kind !== "directory") return {};
  return {
    source: async ({ have }) => {
      const opened = await loadBundle("workspace").openDirectorySource(
        source.path,
        input.placement,
        have,
        signal,
        context.progress,
      );
      return { supply: { what: "source" as const, manifest: opened.manifest }, stream: opened.stream };
    },
  };
}

function invalid(message: string): RuntimeError {
  return new RuntimeError("request-invalid", message, "Send a LifecycleRequest with the input of this workspace");
}

import {
  type CommandRuntimeLifecycleResponse,
  CommandRuntimeLifecycleResponseSchema,
  parseCommandRuntimeMessage,
} from "../../contract/index.ts";
import { git } from "../../wire/git-process.ts";
import { type Installation, runOperation, runWrapper } from "../consumer/index.ts";
import { expectSame, outputOf, unexpected } from "./check.ts";
import { execute, showTerminal } from "./executions.ts";
import type { Screen } from "./screen.ts";
import type { DemoSource } from "./source.ts";
import { timed } from "./timed.ts";

export interface DemoRun {
  installation: Installation & { abortSignal: AbortSignal };
  workspaceId: string;
  source: DemoSource;
  screen: Screen;
}

/**
 * Shows a workspace from its creation to its end. Every step checks what it got.
 * @throws RuntimeError when a step fails, or gives something else than it should
 */
export async function runSteps(run: DemoRun): Promise<void> {
  await describe(run);
  const environment = await create(run);
  await showUncommittedFile(run, environment);
  await showTerminal(run, environment);
  await showWarmCommand(run, environment);
  await showStatus(run);
  await destroy(run);
}

async function describe({ installation, screen }: DemoRun): Promise<void> {
  screen.heading("describe: what this runtime can do (reaches nobody)");
  const { result, milliseconds } = await timed(() => runWrapper(installation, ["describe"]));
  const answer = outputOf("describe", result);
  screen.descriptor(1, answer);
  expectSame("describe", answer, '{"protocolVersion":1,"modes":["pipes","pty"],"reconcile":true}');
  screen.timing({ what: "describe", milliseconds });
}

/** @returns the environment that Paseo gives to every later command in this workspace */
async function create(run: DemoRun): Promise<Record<string, string>> {
  const { source, screen, workspaceId } = run;
  screen.heading("create: a workspace from the source, with nothing running yet");
  const input = {
    workspaceId,
    project: { projectId: "demo", source: { kind: "directory", path: source.path } },
    placement: { kind: "existing" },
  };
  const { result, milliseconds } = await timed(() => lifecycle(run, "create", { input }));
  if (result.type !== "state" || result.materializedFreshContent !== true || result.state.lifecycle !== "ready") {
    throw unexpected("create", JSON.stringify(result), "a fresh workspace that is ready");
  }
  screen.text(`the workspace on the host: ${result.placement.cwd}`);
  screen.timing({ what: "create (broker, SSH login, agent, checkout)", milliseconds });
  return result.state.lifecycleEnvironment ?? {};
}

async function showUncommittedFile(run: DemoRun, environment: Record<string, string>): Promise<void> {
  const { screen, source, installation } = run;
  const command = ["git", "status", "--porcelain", "-u"];
  screen.heading(`exec with pipes: ${command.join(" ")}`);
  const { stdout } = await execute(run, "exec git status", command, environment);
  const local = await git(command.slice(1), {
    cwd: source.path,
    signal: installation.abortSignal,
    doing: "read the state of the source",
  });
  expectSame("git status", stdout, `${local}\n`);
  if (!local.includes(source.uncommitted.name)) throw unexpected("git status", local, `?? ${source.uncommitted.name}`);
}

async function showWarmCommand(run: DemoRun, environment: Record<string, string>): Promise<void> {
  const { screen, source } = run;
  const { name, content } = source.uncommitted;
  screen.heading(`inspect and exec, as Paseo does for every command: cat ${name}`);
  const { result, milliseconds } = await timed(() => lifecycle(run, "inspect"));
  if (result.type !== "inspection" || result.inspection.status !== "ready") {
    throw unexpected("inspect", JSON.stringify(result), "a workspace that is ready");
  }
  screen.timing({ what: "inspect, warm", milliseconds });
  const { stdout } = await execute(run, "exec cat, warm", ["cat", name], environment);
  expectSame("cat", stdout, content);
}

async function showStatus({ installation, screen }: DemoRun): Promise<void> {
  screen.heading("paseo-ssh-runtime status");
  const lines = outputOf("status", await runWrapper(installation, ["status"])).split("\n");
  for (const line of lines) screen.text(line);
  if (!lines.some((line) => line.includes(": connected for ")))
    throw unexpected("status", lines.join(" "), "a connected host");
}

async function destroy(run: DemoRun): Promise<void> {
  const { screen } = run;
  screen.heading("destroy");
  const { result, milliseconds } = await timed(() => lifecycle(run, "destroy"));
  expectSame("destroy", result.type, "ok");
  const after = await lifecycle(run, "inspect");
  expectSame(
    "inspect",
    JSON.stringify(after),
    '{"type":"inspection","protocolVersion":1,"inspection":{"status":"missing"}}',
  );
  screen.text("inspect says that the workspace is missing");
  screen.timing({ what: "destroy", milliseconds });
}

async function lifecycle(
  { installation, workspaceId }: DemoRun,
  operation: "create" | "inspect" | "destroy",
  extra: Record<string, unknown> = {},
): Promise<CommandRuntimeLifecycleResponse> {
  const result = await runOperation(installation, [operation, "--workspace-id", workspaceId], extra);
  const answer: unknown = JSON.parse(outputOf(operation, result));
  return parseCommandRuntimeMessage(CommandRuntimeLifecycleResponseSchema, answer, "internal");
}

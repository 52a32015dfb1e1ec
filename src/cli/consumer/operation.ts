import { type ChildProcess, type StdioPipe, spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";

/** One Paseo installation with one runtime entry of its config.json. */
export interface Installation {
  /** Path of bin/paseo-ssh-runtime.cjs. */
  launcher: string;
  runtimeInstanceId: string;
  options: Record<string, unknown>;
  /** The whole environment of the wrappers. */
  env: NodeJS.ProcessEnv;
  /** Ends the wrappers that run when it is aborted. */
  abortSignal?: AbortSignal;
}

export interface OperationResult {
  code: number | null;
  signal: NodeJS.Signals | null;
  stdout: string;
  stderr: string;
}

export function lifecycleRequest(
  installation: Pick<Installation, "runtimeInstanceId" | "options">,
  extra: Record<string, unknown> = {},
): Record<string, unknown> {
  const { runtimeInstanceId, options } = installation;
  return { protocolVersion: 1, runtimeInstanceId, options, ...extra };
}

/** Runs the wrapper to its end with these arguments and this standard input; any end is a result. */
export async function runWrapper(installation: Installation, args: string[], stdin = ""): Promise<OperationResult> {
  return await startWrapper(installation, args, stdin).result;
}

/** The same, for whoever does something to the wrapper meanwhile; its process group has its pid. */
export function startWrapper(
  installation: Installation,
  args: string[],
  stdin = "",
): { pid: number; result: Promise<OperationResult> } {
  const child = spawnWrapper(installation, args, ["pipe", "pipe", "pipe"]);
  const closed = once(child, "close") as Promise<[number | null, NodeJS.Signals | null]>;
  const output = Promise.all([text(child.stdout!), text(child.stderr!)]);
  child.stdin!.on("error", () => {});
  child.stdin!.end(stdin);
  const result = Promise.all([closed, output]).then(([[code, signal], [stdout, stderr]]) => ({
    code,
    signal,
    stdout,
    stderr,
  }));
  return { pid: child.pid!, result };
}

/** Runs an operation of the contract with the request that belongs to it. */
export async function runOperation(
  installation: Installation,
  args: string[],
  extra: Record<string, unknown> = {},
): Promise<OperationResult> {
  return await runWrapper(installation, args, JSON.stringify(lifecycleRequest(installation, extra)));
}

/** Starts the wrapper as leader of a process group, as Paseo does, so that a Ctrl-C here does not reach it. */
export function spawnWrapper(installation: Installation, args: string[], stdio: (StdioPipe | number)[]): ChildProcess {
  const { launcher, env, abortSignal } = installation;
  const child = spawn(process.execPath, [launcher, ...args], { env, stdio, detached: true });
  const stop = () => child.kill();
  if (abortSignal?.aborted) stop();
  abortSignal?.addEventListener("abort", stop, { once: true });
  child.once("close", () => abortSignal?.removeEventListener("abort", stop));
  return child;
}

import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import * as z from "zod/mini";
import { connect, Keychain, parseRuntimeOptions, resolveTarget } from "../../ssh/index.ts";
import { RuntimeError } from "../../wire/errors.ts";
import { type Installation, runOperation, runWrapper } from "../consumer/index.ts";
import type { DemoTarget } from "./target.ts";

/** Taking away what a run started, also one that failed or was interrupted in the middle. */

const StatusSchema = z.object({
  broker: z.nullable(z.object({ pid: z.int() })),
  hosts: z.array(z.object({ state: z.string(), agent: z.optional(z.object({ pid: z.int() })) })),
});
type Status = z.infer<typeof StatusSchema>;

const POLL_MS = 10;
const BROKER_END_LIMIT_MS = 5_000;
/** Tenths of a second that the agent gets to end. */
const AGENT_END_TENTHS = 50;

/**
 * Destroys the workspace, ends the broker, and removes the run's own root from the host with the agent that serves it.
 * @param installation without the signal that interrupted the run
 * @throws RuntimeError when something may be left on the host
 */
export async function cleanUp(installation: Installation, workspaceId: string, target: DemoTarget): Promise<void> {
  const wasReached = connectedHost(await status(installation)) !== undefined;
  // Ends what runs in the workspace, too. One that does not exist is no failure.
  if (wasReached) await runOperation(installation, ["destroy", "--workspace-id", workspaceId]);
  // Asked again: an interrupted run may have had no agent yet, and then has one now.
  const now = await status(installation);
  if (now.broker !== null) {
    await runWrapper(installation, ["broker", "stop"]);
    await untilGone(now.broker.pid);
  }
  if (wasReached && target.ownRoot !== undefined) {
    await removeFromHost(target.options, target.env, target.ownRoot, connectedHost(now)?.agent?.pid);
  }
}

function connectedHost({ hosts }: Status): Status["hosts"][number] | undefined {
  return hosts.find(({ state }) => state === "connected");
}

async function status(installation: Installation): Promise<Status> {
  const { stdout } = await runWrapper(installation, ["status", "--json"]);
  return StatusSchema.parse(JSON.parse(stdout));
}

/** There is no event for the end of a process that is not a child. */
async function untilGone(pid: number): Promise<void> {
  const deadline = Date.now() + BROKER_END_LIMIT_MS;
  while (isRunning(pid)) {
    if (Date.now() > deadline) throw new RuntimeError("internal", `The broker (process ${pid}) does not end`);
    await delay(POLL_MS);
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  try {
    // proc(5): the state follows the name. In a container, whoever reaps the dead may take seconds to do so.
    return !/^\d+ \(.*\) [ZX]/s.test(readFileSync(`/proc/${pid}/stat`, "latin1"));
  } catch {
    return true;
  }
}

/** Over a connection of its own, since the runtime offers no way to run a command outside of a workspace. */
async function removeFromHost(
  rawOptions: Record<string, unknown>,
  env: NodeJS.ProcessEnv,
  root: string,
  agentPid: number | undefined,
): Promise<void> {
  const options = parseRuntimeOptions(rawOptions);
  const { HOME = "", PATH = "", SSH_AUTH_SOCK: authSock } = env;
  const carrier = await connect(await resolveTarget(options, { HOME, PATH }), {
    authSock,
    keychain: new Keychain(env),
  });

  try {
    const command = await carrier.run("/bin/sh");
    const done = `@removed-${randomBytes(8).toString("hex")}@`;
    command.stderr.resume();
    command.stdin.end(removalScript(root, agentPid, done));
    if ((await text(command.stdout)).includes(done)) return;
  } finally {
    carrier.close();
  }
  throw new RuntimeError("internal", `The folder ${root} could not be removed from ${options.host}`, "Remove it there");
}

/** The agent ends first, for it would write into the folder while it is being removed. */
function removalScript(root: string, agentPid: number | undefined, done: string): string {
  const folder = `"$HOME"/${root.slice("~/".length)}`;
  const endAgent = [
    `pid=${agentPid}`,
    "kill -TERM $pid 2>/dev/null",
    "n=0",
    `while kill -0 $pid 2>/dev/null && [ $n -lt ${AGENT_END_TENTHS} ]; do`,
    "  case $(sed 's/.*) //' /proc/$pid/stat 2>/dev/null) in [ZX]*) break ;; esac",
    "  sleep 0.1; n=$((n + 1))",
    "done",
    // Where the root's path is too long for a socket, the agent's lie here.
    'for socket in /tmp/paseo-ssh-agent-"$(id -u)"/agent-*."$pid".sock; do',
    `  rm -f "$(echo "$socket" | sed 's/[.]${agentPid}[.]sock$//')".*`,
    "done",
  ];
  const remove = [`rm -rf -- ${folder}`, `[ -e ${folder} ] || echo ${done}`];
  return [...(agentPid === undefined ? [] : endAgent), ...remove, ""].join("\n");
}

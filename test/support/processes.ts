import { readdirSync, readFileSync, readlinkSync, statSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";

/**
 * Processes of a build host on this machine, seen through /proc. Agents outlive everything that started them, so whoever
 * lets one be started ends it.
 */

const POLL_MS = 10;
const END_LIMIT_MS = 10_000;

/** proc(5), /proc/[pid]/stat; undefined when there is no such process or it has ended and waits to be reaped. */
export function processStat(pid: number): { parent: number; session: number } | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "latin1");
    const [state, parent, , session] = text.slice(text.lastIndexOf(")") + 2).split(" ");
    return /^[ZX]/.test(state!) ? undefined : { parent: Number(parent), session: Number(session) };
  } catch {
    return undefined;
  }
}

/** What a process holds in memory, now and at most so far, in MiB (proc(5), VmRSS and VmHWM). */
export function residentMemory(pid: number): { now: number; most: number } {
  const text = readFileSync(`/proc/${pid}/status`, "latin1");
  const mebibytes = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(text)?.[1]) / 1024;
  return { now: mebibytes("VmRSS"), most: mebibytes("VmHWM") };
}

/** Whether a signal has stopped it. */
export function isStopped(pid: number): boolean {
  try {
    return /^State:\s+T /m.test(readFileSync(`/proc/${pid}/status`, "latin1"));
  } catch {
    return false;
  }
}

/** Processor time that a process has used, in seconds (proc(5), utime and stime in the usual 100 ticks a second). */
export function processorSeconds(pid: number): number {
  const text = readFileSync(`/proc/${pid}/stat`, "latin1");
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

export function isRunning(pid: number): boolean {
  return processStat(pid) !== undefined;
}

/** Waits for the end of processes that are not children of this one, for which there is no event. */
export async function untilGone(...pids: number[]): Promise<void> {
  const deadline = Date.now() + END_LIMIT_MS;
  while (pids.some(isRunning)) {
    if (Date.now() > deadline) throw new Error(`Of the processes ${pids.join(", ")} some do not end`);
    await delay(POLL_MS);
  }
}

/** Processes whose command line has this text in it. */
export function processesWith(text: string): number[] {
  return allProcesses().filter((pid) => commandLine(pid).join(" ").includes(text));
}

/** Agents that serve this root, known by their command line. */
export function agentPidsOf(root: string): number[] {
  return allProcesses().filter((pid) => {
    const words = commandLine(pid);
    const script = words.findIndex((word) => word.endsWith("/agent.cjs"));
    return script > 0 && words[script + 1]?.includes(`"root":${JSON.stringify(root)},`);
  });
}

/** Kills the agents of a root, as a crash would. What they ran goes on. */
export async function killAgents(root: string): Promise<void> {
  await kill(agentPidsOf(root));
}

/** Ends the agents of a root, and everything that has its working folder in a workspace of that root. */
export async function endAgents(root: string): Promise<void> {
  await killAgents(root);
  await kill(processesIn(`${root}/workspaces`));
}

/** Processes that have their working folder below this one. */
export function processesIn(folder: string): number[] {
  return allProcesses().filter((pid) => workingFolder(pid).startsWith(`${folder}/`));
}

/** Ends wrappers that still run, which would start a new broker when theirs ends. */
export async function endWrappers(brokerFolder: string): Promise<void> {
  const variable = `PASEO_SSH_RUNTIME_DIR=${brokerFolder}`;
  await kill(
    allProcesses().filter(
      (pid) =>
        commandLine(pid)[1]?.endsWith("/paseo-ssh-runtime.cjs") &&
        wordsOf(pid, "environ").some((word) => word === variable),
    ),
  );
}

/** Ends all processes of an account that the test has made. */
export async function endProcessesOf(uid: number): Promise<void> {
  await kill(allProcesses().filter((pid) => statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid === uid));
}

async function kill(pids: number[]): Promise<void> {
  for (const pid of pids) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // It ended by itself.
    }
  }
  await untilGone(...pids);
}

function allProcesses(): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter(isRunning);
}

function commandLine(pid: number): string[] {
  return wordsOf(pid, "cmdline");
}

function wordsOf(pid: number, file: "cmdline" | "environ"): string[] {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8").split("\0");
  } catch {
    return [];
  }
}

function workingFolder(pid: number): string {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return "";
  }
}

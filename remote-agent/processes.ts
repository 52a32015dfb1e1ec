import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";

/**
 * The process table, and sending signals. A process is named by pid and start time together, since pids are reused.
 */

export interface ProcessEntry {
  pid: number;
  ppid: number;
  pgid: number;
  sid: number;
  /** Opaque; equal for the same process, different for a later one with the same pid. */
  startTime: string;
  zombie: boolean;
}

export interface ProcessIdentity {
  pid: number;
  startTime: string;
}

/** Milliseconds between two looks at processes that should be ending. */
const POLL_MS = 10;

/** Start time of a process that is in the table, or undefined. */
export function startTimeOf(pid: number): string | undefined {
  return entryOf(pid)?.startTime;
}

/** Whether a process can still do something. A zombie can stay for good, where process 1 reaps nothing. */
export function isAlive(identity: ProcessIdentity): boolean {
  const entry = entryOf(identity.pid);
  return entry !== undefined && entry.startTime === identity.startTime && !entry.zombie;
}

function entryOf(pid: number): ProcessEntry | undefined {
  return process.platform === "linux" ? readStat(pid) : listWithPs(["-p", String(pid)])[0];
}

export function listProcesses(): ProcessEntry[] {
  if (process.platform !== "linux") return listWithPs(["-A"]);
  const entries: ProcessEntry[] = [];
  for (const name of readdirSync("/proc")) {
    if (name.charCodeAt(0) > 57) continue;
    const entry = readStat(Number(name));
    if (entry !== undefined) entries.push(entry);
  }
  return entries;
}

/**
 * proc(5), /proc/[pid]/stat, from the third field (the state) on. The command before it may hold blanks and
 * parentheses, so fields count from the last one.
 */
function statFields(pid: number): string[] | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "latin1");
    return text.slice(text.lastIndexOf(")") + 2).split(" ");
  } catch {
    return undefined;
  }
}

function readStat(pid: number): ProcessEntry | undefined {
  const fields = statFields(pid);
  if (fields === undefined) return undefined;
  return {
    pid,
    zombie: fields[0] === "Z" || fields[0] === "X",
    ppid: Number(fields[1]),
    pgid: Number(fields[2]),
    sid: Number(fields[3]),
    startTime: fields[19] ?? "",
  };
}

/** PF_EXITING of the kernel's sched.h, in the ninth field of /proc/[pid]/stat. */
const EXITING = 0x4;

/**
 * What ended a child that has just closed its outputs and that libuv has not reaped yet: for a signal that libuv has no
 * name for (the real-time ones) Node reports exit code 0, and nothing is to be seen of a child after that. The kernel
 * notes the reason (the last field) before it closes the files.
 * @returns number of the signal; undefined for another end, no end, and where /proc does not tell
 */
export function signalThatEnds(pid: number): number | undefined {
  const fields = statFields(pid);
  if (fields === undefined) return undefined;
  const ends = fields[0] === "Z" || (Number(fields[6]) & EXITING) !== 0;
  return ends ? Number(fields[49]) & 0x7f || undefined : undefined;
}

function listWithPs(selection: string[]): ProcessEntry[] {
  const columns = ["pid=", "ppid=", "pgid=", "sess=", "stat=", "lstart="].flatMap((column) => ["-o", column]);
  const result = spawnSync("ps", [...selection, ...columns], {
    encoding: "latin1",
    env: { PATH: "/bin:/usr/bin", LC_ALL: "C" },
  });
  return (result.stdout ?? "").split("\n").flatMap((line) => {
    const [pid, ppid, pgid, sid, state, ...started] = line.trim().split(/\s+/);
    if (!pid || started.length === 0) return [];
    const zombie = state?.startsWith("Z") ?? false;
    return [
      {
        pid: Number(pid),
        ppid: Number(ppid),
        pgid: Number(pgid),
        sid: Number(sid),
        startTime: started.join(" "),
        zombie,
      },
    ];
  });
}

/** Sends a signal to a process or, for a negative pid, a group; a target that is gone is no error. */
export function sendSignal(pid: number, signal: NodeJS.Signals | number): boolean {
  try {
    process.kill(pid, signal);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ESRCH") return false;
    throw error;
  }
}

/**
 * Waits until a condition about other processes holds. There is no event for the end of a process that is not a child,
 * so this looks again and again.
 * @returns whether it came to hold within the limit
 */
export async function waitUntilGone(isGone: () => boolean, limitMs: number): Promise<boolean> {
  const deadline = Date.now() + limitMs;
  for (;;) {
    if (isGone()) return true;
    if (Date.now() >= deadline) return false;
    await delay(POLL_MS);
  }
}

import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";

/**
 * The process table, and ending everything that belongs to an execution. A process is named by pid and start time
 * together, since pids are reused.
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

/** Start time of a live process, or undefined. */
export function startTimeOf(pid: number): string | undefined {
  if (process.platform === "linux") return readStat(pid)?.startTime;
  return listWithPs(["-p", String(pid)])[0]?.startTime;
}

export function isRunning(identity: ProcessIdentity): boolean {
  return startTimeOf(identity.pid) === identity.startTime;
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

/** proc(5), /proc/[pid]/stat. The command may hold blanks and parentheses, so fields count from the last one. */
function readStat(pid: number): ProcessEntry | undefined {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/stat`, "latin1");
  } catch {
    return undefined;
  }
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return {
    pid,
    zombie: fields[0] === "Z" || fields[0] === "X",
    ppid: Number(fields[1]),
    pgid: Number(fields[2]),
    sid: Number(fields[3]),
    startTime: fields[19] ?? "",
  };
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

/**
 * Everything alive that belongs to the session led by `leader`: its group, its session, and the descendants of any of
 * them in whatever session they are. What has left both the session and the ancestry (a daemon that forked twice and
 * called setsid) is found when it is in `known`, because it was seen before it left.
 *
 * The kernel does not give a pid away while a group or session still carries its number, so as long as a member is
 * left the number means this session; once another process has the pid, only `known` counts.
 */
export function membersOf(leader: ProcessIdentity, known: Iterable<ProcessIdentity> = []): ProcessEntry[] {
  const table = listProcesses();
  const members = new Set<number>();
  const earlier = new Map<number, string>();
  for (const identity of known) earlier.set(identity.pid, identity.startTime);
  const reused = table.some((entry) => entry.pid === leader.pid && entry.startTime !== leader.startTime);
  for (const entry of table) {
    const inSession = entry.pgid === leader.pid || entry.sid === leader.pid || entry.pid === leader.pid;
    if ((inSession && !reused) || earlier.get(entry.pid) === entry.startTime) members.add(entry.pid);
  }
  let grown = true;
  while (grown) {
    grown = false;
    for (const entry of table) {
      if (!members.has(entry.pid) && members.has(entry.ppid)) {
        members.add(entry.pid);
        grown = true;
      }
    }
  }
  return table.filter((entry) => members.has(entry.pid) && !entry.zombie);
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

/**
 * Kills every member again and again until none is left: a member may fork while the list is being read.
 * @returns whether all are gone within the limit
 */
export async function killAll(
  leader: ProcessIdentity,
  known: () => Iterable<ProcessIdentity>,
  limitMs: number,
): Promise<boolean> {
  return await waitUntilGone(() => {
    const members = membersOf(leader, known());
    for (const member of members) sendSignal(member.pid, "SIGKILL");
    return members.length === 0;
  }, limitMs);
}

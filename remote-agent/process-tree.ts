import type { ControlGroup } from "./control-groups.ts";
import { listProcesses, type ProcessEntry, type ProcessIdentity, sendSignal, waitUntilGone } from "./processes.ts";

/**
 * The processes of one execution: its group and session, the descendants of any of them, what was seen among those
 * earlier, and, where there are control groups, whatever is in its own. Without control groups a daemon that forks
 * twice and calls setsid between two looks is not found (docs/architecture.md says so).
 */
export class ProcessTree {
  readonly leader: ProcessIdentity;
  readonly #group: ControlGroup | undefined;
  #seen: ProcessIdentity[] = [];

  constructor(leader: ProcessIdentity, group: ControlGroup | undefined) {
    this.leader = leader;
    this.#group = group;
  }

  /** Remembers what belongs to the execution now, for later it may have left its session. @returns what is alive */
  look(): ProcessEntry[] {
    const members = membersOf(this.leader, this.#seen, this.#group?.pids() ?? []);
    this.#seen = members;
    return members;
  }

  /** To the process group, as a terminal or a shell would send it. */
  signalGroup(signal: number | NodeJS.Signals): void {
    sendSignal(-this.leader.pid, signal);
  }

  /** @returns whether everything is gone within the limit, in ms */
  async gone(limitMs: number): Promise<boolean> {
    return await waitUntilGone(() => this.look().length === 0, limitMs);
  }

  /**
   * Kills again and again until nothing is left: a process may fork while the list is being read.
   * @returns whether everything is gone within the limit, in ms
   */
  async kill(limitMs: number): Promise<boolean> {
    return await waitUntilGone(() => {
      const members = this.look();
      for (const member of members) sendSignal(member.pid, "SIGKILL");
      return members.length === 0;
    }, limitMs);
  }
}

/**
 * Everything alive that belongs to the session led by `leader`: its group, its session, and the descendants of any of
 * them in whatever session they are, beside what is known already.
 *
 * The kernel does not give a pid away while a group or session still carries its number, so as long as a member is
 * left the number means this session; once another process has the pid, only what is known counts.
 * @param known processes that belonged to it before
 * @param certain pids that belong to it for another reason
 */
export function membersOf(
  leader: ProcessIdentity,
  known: Iterable<ProcessIdentity> = [],
  certain: Iterable<number> = [],
): ProcessEntry[] {
  const table = listProcesses();
  const members = new Set<number>(certain);
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

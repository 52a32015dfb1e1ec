import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { sendSignal } from "./processes.ts";

/**
 * Control groups (cgroups(7), version 2), where this account may make them: each execution runs in a group of its own,
 * which no fork, setsid or exec leads out of. Without them an execution's processes are found through session and
 * ancestry, which a daemon can leave.
 */

const FOLDER_PREFIX = "paseo-ssh-runtime-";

/** One execution's group, or one that a predecessor left. */
export class ControlGroup {
  /** Absolute path of the group's folder. */
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  /** Processes in this group and in groups that they have made below it. */
  pids(): number[] {
    return foldersBelow(this.path).flatMap(readProcesses);
  }

  kill(): void {
    for (const pid of this.pids()) sendSignal(pid, "SIGKILL");
  }

  /** @returns whether it is gone; a group with processes stays */
  remove(): boolean {
    try {
      for (const folder of foldersBelow(this.path).reverse()) rmdirSync(folder);
    } catch {
      return !existsSync(this.path);
    }
    return true;
  }
}

/** The groups of one runtime root, below the group that this agent is in. */
export class ControlGroups {
  readonly #own: string;
  readonly #base: string;

  /** @param rootKey names the runtime's root folder, for several may be in use on one host */
  static detect(rootKey: string): ControlGroups | undefined {
    if (process.platform !== "linux") return undefined;
    try {
      const own = ownGroup();
      if (own === undefined) return undefined;
      const groups = new ControlGroups(own, join(own, `${FOLDER_PREFIX}${rootKey}`));
      const trial = groups.create("trial", String(process.pid));
      groups.enter(trial, () => {});
      trial.remove();
      return groups;
    } catch {
      // Not delegated to this account, or not there: the usual case for a login without systemd's help.
      return undefined;
    }
  }

  private constructor(own: string, base: string) {
    this.#own = own;
    this.#base = base;
  }

  create(workspaceKey: string, execKey: string): ControlGroup {
    const path = join(this.#base, workspaceKey, execKey);
    mkdirSync(path, { recursive: true });
    return new ControlGroup(path);
  }

  /** All groups of a workspace that still exist, for what its executions have left behind. */
  ofWorkspace(workspaceKey: string): ControlGroup {
    return new ControlGroup(join(this.#base, workspaceKey));
  }

  /**
   * Starts a process inside a group: this process moves there, forks, and moves back. Moving the child after the fork
   * would leave it time to fork itself. Costs about a millisecond.
   */
  enter<T>(group: ControlGroup, start: () => T): T {
    const pid = String(process.pid);
    writeFileSync(join(group.path, "cgroup.procs"), pid);
    try {
      return start();
    } finally {
      writeFileSync(join(this.#own, "cgroup.procs"), pid);
    }
  }

  /** Removes groups in which nothing runs any more. */
  prune(): void {
    for (const workspace of subfolders(this.#base)) {
      for (const execution of subfolders(workspace)) new ControlGroup(execution).remove();
      if (subfolders(workspace).length === 0) new ControlGroup(workspace).remove();
    }
    if (subfolders(this.#base).length === 0) new ControlGroup(this.#base).remove();
  }
}

/** Folder of the group that this process is in, when version 2 is mounted. */
function ownGroup(): string | undefined {
  const mount = /^\S+ (\S+) cgroup2 /m.exec(readFileSync("/proc/self/mounts", "utf8"))?.[1];
  const path = /^0::(.*)$/m.exec(readFileSync("/proc/self/cgroup", "utf8"))?.[1];
  return mount === undefined || path === undefined ? undefined : join(mount, path);
}

function readProcesses(folder: string): number[] {
  try {
    return readFileSync(join(folder, "cgroup.procs"), "utf8").split("\n").filter(Boolean).map(Number);
  } catch {
    return [];
  }
}

/** The folder itself and all below it, parents first. */
function foldersBelow(folder: string): string[] {
  return existsSync(folder) ? [folder, ...subfolders(folder).flatMap(foldersBelow)] : [];
}

function subfolders(folder: string): string[] {
  try {
    return readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => join(folder, entry.name));
  } catch {
    return [];
  }
}

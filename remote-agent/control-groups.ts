import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { RuntimeError } from "../src/wire/errors.ts";
import { type ProcessIdentity, sendSignal, startTimeOf } from "./processes.ts";

/**
 * Control groups (cgroups(7), version 2), where this account may make them: each execution runs in a group of its own,
 * which no fork, setsid or exec leads out of. Without them an execution's processes are found through session and
 * ancestry, which a daemon can leave.
 */

const FOLDER_PREFIX = "paseo-ssh-runtime-";

/** One execution's group, or one that a predecessor left, or the folder that holds all groups of a workspace. */
export class ControlGroup {
  /** Absolute path of the group's folder. */
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  /** Processes in this group and in groups that they have made below it. */
  pids(): number[] {
    return foldersBelow(this.path).flatMap(membersOfFolder);
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

/**
 * The groups of one runtime root, below the group that this agent was started in.
 *
 * A process is started inside its group: this process is there when it forks, for a child that is moved later has had
 * time to fork itself. To move a process the kernel waits until every processor has been through its scheduler: 10 to
 * 20 ms when nothing was moved lately. So this process moves ahead of time, into a group for the next execution of the
 * workspace that had the last one, and on into another one when that has begun.
 */
export class ControlGroups {
  readonly #own: string;
  readonly #base: string;
  readonly #identity: ProcessIdentity;
  #count = 0;
  /** The group that this process is in and nothing else. */
  #prepared: { workspaceKey: string; group: ControlGroup } | undefined;
  /** The group that this process is about to move into; it is empty until then. */
  #entering: ControlGroup | undefined;
  /** Moves, and starts that depend on where this process is, happen one after another. */
  #turns: Promise<unknown> = Promise.resolve();
  /** Operations that start processes which belong to no execution. */
  #outside = 0;

  /** @param rootKey names the runtime's root folder, for several may be in use on one host */
  static detect(rootKey: string): ControlGroups | undefined {
    if (process.platform !== "linux") return undefined;
    try {
      const own = ownGroup();
      if (own === undefined) return undefined;
      const groups = new ControlGroups(own, join(own, `${FOLDER_PREFIX}${rootKey}`));
      groups.#enterBriefly(groups.#create("trial"), () => {});
      return groups;
    } catch {
      // Not delegated to this account, or not there: the usual case for a login without systemd's help.
      return undefined;
    }
  }

  private constructor(own: string, base: string) {
    this.#own = own;
    this.#base = base;
    this.#identity = { pid: process.pid, startTime: startTimeOf(process.pid) ?? "" };
  }

  /** All groups of a workspace that still exist, for what its executions have left behind. */
  ofWorkspace(workspaceKey: string): ControlGroup {
    return new ControlGroup(join(this.#base, workspaceKey));
  }

  /**
   * Starts an execution in a group of its own.
   * @param start forks, and does not wait for anything
   * @throws RuntimeError spawn-failed when this process cannot enter a group, and what `start` throws
   */
  async start<T>(workspaceKey: string, start: (group: ControlGroup) => T): Promise<T> {
    return await this.#inTurn(async () => {
      if (this.#outside > 0) {
        const group = this.#create(workspaceKey);
        return this.#enterBriefly(group, () => start(group));
      }
      if (this.#prepared?.workspaceKey !== workspaceKey) await this.#prepare(workspaceKey);
      const { group } = this.#prepared!;
      try {
        return start(group);
      } finally {
        // Also after an error: something may have been started before it. An empty group is pruned sooner or later.
        this.#moveOn(workspaceKey);
      }
    });
  }

  /** Does something that starts processes which belong to no execution. */
  async outside<T>(work: () => Promise<T>): Promise<T> {
    this.#outside += 1;
    try {
      await this.#inTurn(() => this.#goHome());
      return await work();
    } finally {
      this.#outside -= 1;
    }
  }

  /** Removes groups in which nothing runs any more. */
  prune(): void {
    for (const workspace of subfolders(this.#base)) {
      for (const execution of subfolders(workspace)) {
        if (execution !== this.#entering?.path) new ControlGroup(execution).remove();
      }
      if (subfolders(workspace).length === 0) new ControlGroup(workspace).remove();
    }
    if (subfolders(this.#base).length === 0) new ControlGroup(this.#base).remove();
  }

  /** The last thing that this process does here: leaves a group that is prepared, and removes what is empty. */
  close(): void {
    if (this.#prepared !== undefined) writeFileSync(processesFile(this.#own), String(process.pid));
    this.#prepared = undefined;
    this.prune();
  }

  /** The group has an execution now, so this process leaves it; nobody waits for that but the next start. */
  #moveOn(workspaceKey: string): void {
    this.#prepared = undefined;
    this.#inTurn(() => (this.#outside > 0 ? this.#goHome() : this.#prepare(workspaceKey))).catch((error) => {
      console.error(new Date().toISOString(), "could not prepare a control group:", error);
    });
  }

  async #prepare(workspaceKey: string): Promise<void> {
    const group = this.#create(workspaceKey);
    this.#entering = group;
    try {
      await this.#move(group.path);
    } finally {
      this.#entering = undefined;
    }
    this.#prepared?.group.remove();
    this.#prepared = { workspaceKey, group };
  }

  async #goHome(): Promise<void> {
    await this.#move(this.#own);
    this.#prepared?.group.remove();
    this.#prepared = undefined;
  }

  /** In a thread of libuv's, so that nothing else waits for the kernel. */
  async #move(folder: string): Promise<void> {
    try {
      await writeFile(processesFile(folder), String(process.pid));
    } catch (error) {
      throw cannotEnter(folder, error);
    }
  }

  /** In, and out again at once. */
  #enterBriefly<T>(group: ControlGroup, start: () => T): T {
    try {
      writeFileSync(processesFile(group.path), String(process.pid));
    } catch (error) {
      throw cannotEnter(group.path, error);
    }
    try {
      return start();
    } finally {
      writeFileSync(processesFile(this.#own), String(process.pid));
      if (group.pids().length === 0) group.remove();
    }
  }

  /** The name says who may be in it without belonging to it. */
  #create(workspaceKey: string): ControlGroup {
    this.#count += 1;
    const path = join(this.#base, workspaceKey, `${this.#identity.pid}-${this.#identity.startTime}-${this.#count}`);
    mkdirSync(path, { recursive: true });
    return new ControlGroup(path);
  }

  #inTurn<T>(turn: () => Promise<T>): Promise<T> {
    const result = this.#turns.then(turn);
    this.#turns = result.catch(() => {});
    return result;
  }
}

function cannotEnter(folder: string, error: unknown): RuntimeError {
  return new RuntimeError(
    "spawn-failed",
    `The control group ${folder} cannot be entered (${(error as Error).message})`,
    "Stop the agent, so that the next one finds out anew what this account may do",
  );
}

function processesFile(folder: string): string {
  return join(folder, "cgroup.procs");
}

/** Folder of the group that this process is in, when version 2 is mounted. */
function ownGroup(): string | undefined {
  const mount = /^\S+ (\S+) cgroup2 /m.exec(readFileSync("/proc/self/mounts", "utf8"))?.[1];
  const path = /^0::(.*)$/m.exec(readFileSync("/proc/self/cgroup", "utf8"))?.[1];
  return mount === undefined || path === undefined ? undefined : join(mount, path);
}

/** An agent that has prepared a group, or just started something there, is in it and does not belong to it. */
function membersOfFolder(folder: string): number[] {
  const [, agentPid, agentStart] = /\/(\d+)-(\d+)-\d+$/.exec(folder) ?? [];
  let pids: number[];
  try {
    pids = readFileSync(processesFile(folder), "utf8").split("\n").filter(Boolean).map(Number);
  } catch {
    return [];
  }
  return pids.filter((pid) => pid !== Number(agentPid) || startTimeOf(pid) !== agentStart);
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

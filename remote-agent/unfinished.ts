import { createHash, randomBytes } from "node:crypto";
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { removeTree } from "./materialize/index.ts";
import { isAlive, startTimeOf } from "./processes.ts";
import { isMissing } from "./store.ts";
import { thisHost } from "./this-host.ts";

/**
 * Folders of workspaces that are being filled. A crash leaves them, and the next agent removes them; but not those of a
 * live agent, be it an older build here or one on another host that shares the root.
 */

const PREFIX = ".new-";
/** Host, pid, and what tells the process from a later one with its pid. */
const NAME = /^\.new-([0-9a-f]{8})-(\d+)-([0-9a-f]{8})-/;
/** Nothing tells whether a process on another host lives; no create takes this long. */
const FOREIGN_DAYS = 7;
const DAY_MS = 24 * 60 * 60 * 1000;

/** A name that no folder has, for one of this process. */
export function unfinishedName(): string {
  const started = shortHash(startTimeOf(process.pid) ?? "");
  return `${PREFIX}${thisHost()}-${process.pid}-${started}-${randomBytes(8).toString("hex")}`;
}

export function isUnfinished(name: string): boolean {
  return name.startsWith(PREFIX);
}

/** Removes those that nobody fills any more. @param folder that of all workspaces */
export async function removeAbandoned(folder: string): Promise<void> {
  for (const name of readdirSync(folder).filter(isUnfinished)) {
    const path = join(folder, name);
    if (!isInUse(name, path)) await removeTree(path);
  }
}

function isInUse(name: string, path: string): boolean {
  const [, host, pid, started] = NAME.exec(name) ?? [];
  if (host === undefined) return false;
  if (host === thisHost()) return Number(pid) !== process.pid && isRunning(Number(pid), started!);
  try {
    return Date.now() - statSync(path).mtimeMs < FOREIGN_DAYS * DAY_MS;
  } catch (error) {
    if (isMissing(error)) return true;
    throw error;
  }
}

/** A process that was killed and that nobody has reaped yet fills nothing any more. */
function isRunning(pid: number, started: string): boolean {
  const startTime = startTimeOf(pid);
  return startTime !== undefined && shortHash(startTime) === started && isAlive({ pid, startTime });
}

function shortHash(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 8);
}

import { randomBytes } from "node:crypto";
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { removeTree } from "./materialize/index.ts";
import { isMissing } from "./store.ts";
import { thisHost } from "./this-host.ts";

/**
 * Folders of workspaces that are being filled. A crash leaves them, and the next agent removes them; but not those of a
 * live agent, be it an older build here or one on another host that shares the root.
 */

const PREFIX = ".new-";
const NAME = /^\.new-([0-9a-f]{8})-(\d+)-/;
/** Nothing tells whether a process on another host lives; no create takes this long. */
const FOREIGN_DAYS = 7;
const DAY_MS = 24 * 60 * 60 * 1000;

/** A name that no folder has, for one of this process. */
export function unfinishedName(): string {
  return `${PREFIX}${thisHost()}-${process.pid}-${randomBytes(8).toString("hex")}`;
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
  const [, host, pid] = NAME.exec(name) ?? [];
  if (host === undefined) return false;
  if (host === thisHost()) return Number(pid) !== process.pid && isRunning(Number(pid));
  try {
    return Date.now() - statSync(path).mtimeMs < FOREIGN_DAYS * DAY_MS;
  } catch (error) {
    if (isMissing(error)) return true;
    throw error;
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    // EPERM too: an agent of this account could be signalled.
    return false;
  }
}

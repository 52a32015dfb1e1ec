import { existsSync, mkdirSync, readdirSync, renameSync, statSync, utimesSync } from "node:fs";
import { basename, join } from "node:path";
import type { Layout } from "./layout.ts";
import { removeTree } from "./materialize/index.ts";
import { isMissing } from "./store.ts";

/** Workspaces that were removed while they held work nobody else has: kept here for a while, then deleted. */

export const TRASH_DAYS = 7;
const DAY_MS = 24 * 60 * 60 * 1000;

/**
 * Moves a workspace's folder out of the way in one step, so that it is gone for everybody at once.
 * @returns where it is now
 */
export function moveToTrash(layout: Layout, workspaceFolder: string): string {
  mkdirSync(layout.trash, { recursive: true, mode: 0o700 });
  const name = `${basename(workspaceFolder)}.${new Date().toISOString().replace(/[:.]/g, "-")}`;
  let target = join(layout.trash, name);
  for (let attempt = 1; existsSync(target); attempt += 1) target = join(layout.trash, `${name}-${attempt}`);
  renameSync(workspaceFolder, target);
  // Its age in the trash counts from now, whatever the workspace's own times are.
  const now = new Date();
  utimesSync(target, now, now);
  return target;
}

/** Deletes what has been in the trash for longer than TRASH_DAYS. */
export async function emptyOldTrash(layout: Layout): Promise<void> {
  let names: string[];
  try {
    names = readdirSync(layout.trash);
  } catch (error) {
    if (isMissing(error)) return;
    throw error;
  }
  for (const name of names) {
    const path = join(layout.trash, name);
    if (Date.now() - statSync(path).mtimeMs > TRASH_DAYS * DAY_MS) await removeTree(path);
  }
}

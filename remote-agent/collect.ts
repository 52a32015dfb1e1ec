import { readdirSync, statSync, utimesSync } from "node:fs";
import { join } from "node:path";
import type { Layout } from "./layout.ts";
import { removeTree } from "./materialize/index.ts";
import { isMissing } from "./store.ts";

/**
 * Removes what older builds have left on this host: agents, helpers, nodes that were sent here, and deployments that never came to an end. What is
 * in use is touched by whoever uses it, so age is enough to tell.
 */

const UNUSED_DAYS = 30;
const DAY_MS = 24 * 60 * 60 * 1000;

/** @param inUse folders that this agent uses */
export async function collectUnused(layout: Layout, inUse: readonly string[]): Promise<void> {
  const now = new Date();
  for (const folder of inUse) touch(folder, now);
  for (const parent of [layout.agents, layout.nodes, layout.helpers]) {
    for (const folder of entriesOf(parent)) {
      if (now.getTime() - statSync(folder).mtimeMs > UNUSED_DAYS * DAY_MS) await removeTree(folder);
    }
  }
}

function touch(folder: string, now: Date): void {
  try {
    utimesSync(folder, now, now);
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
}

function entriesOf(parent: string): string[] {
  try {
    return readdirSync(parent).map((name) => join(parent, name));
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

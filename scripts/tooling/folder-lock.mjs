// Lets one process at a time do something, also when a holder was killed. Only built-in modules: this runs before npm ci.
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const POLL_MS = 100;

/** An install on a slow line takes minutes; beyond this, the process with that id is probably not a setup at all. */
const LONGEST_WAIT_MS = 10 * 60_000;

/**
 * Runs `action` while holding the lock.
 * @param {string} folder the lock: a folder that exists while somebody holds it, with the holder's process id inside.
 * @param {(pid: number) => void} onWait called once when another process holds it.
 * @throws {Error} when the lock is still held after ten minutes; also whatever `action` throws.
 */
export async function withFolderLock(folder, onWait, action) {
  await acquire(folder, onWait);
  try {
    return await action();
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function acquire(folder, onWait) {
  const deadline = Date.now() + LONGEST_WAIT_MS;
  // Prepared beside the lock and renamed onto it: a lock never exists without its holder's id.
  const prepared = `${folder}.${process.pid}`;
  rmSync(prepared, { recursive: true, force: true });
  mkdirSync(prepared);
  writeFileSync(join(prepared, "pid"), String(process.pid));
  try {
    for (let waits = 0; !renamed(prepared, folder); waits++) {
      const holder = holderOf(folder);
      if (holder === undefined) continue;
      if (!isAlive(holder)) {
        takeAway(folder, holder);
        continue;
      }
      if (waits === 0) onWait(holder);
      if (Date.now() > deadline) {
        throw new Error(
          `Process ${holder} has held ${folder} for ten minutes. Remove that folder if it is none of ours.`,
        );
      }
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  } finally {
    rmSync(prepared, { recursive: true, force: true });
  }
}

/** rename(2) of a folder onto a folder that is not empty fails, which makes it a test-and-set. */
function renamed(from, to) {
  try {
    renameSync(from, to);
    return true;
  } catch (error) {
    if (error.code === "ENOTEMPTY" || error.code === "EEXIST") return false;
    throw error;
  }
}

function holderOf(folder) {
  try {
    return Number(readFileSync(join(folder, "pid"), "utf8"));
  } catch (error) {
    if (error.code === "ENOENT") return undefined;
    throw error;
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === "EPERM";
  }
}

/** Two waiters may both find a dead holder; who removes second must not remove the lock that the first now holds. */
function takeAway(folder, deadHolder) {
  const stale = `${folder}.stale-${process.pid}`;
  if (holderOf(folder) !== deadHolder || !renamedAway(folder, stale)) return;
  if (holderOf(stale) === deadHolder) rmSync(stale, { recursive: true, force: true });
  else renamed(stale, folder);
}

function renamedAway(from, to) {
  try {
    renameSync(from, to);
    return true;
  } catch (error) {
    if (error.code === "ENOENT") return false;
    throw error;
  }
}

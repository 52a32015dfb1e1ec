import { lstatSync, mkdirSync, type Stats } from "node:fs";
import { RuntimeError } from "./errors.ts";

/**
 * Folders that nobody else may own or look into: whoever can put a socket there can pose as the broker or the agent, and
 * whoever can put compiled code there runs it as this user.
 */

/**
 * Makes such a folder, or checks the one that is there.
 * @throws RuntimeError runtime-folder-unsafe
 */
export function securePrivateFolder(path: string): void {
  if (isPrivateFolder(path)) return;
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw unsafe(path, `cannot be made (${(error as Error).message})`, "Make it by hand, with mode 0700");
  }
  // Somebody else may have been faster.
  isPrivateFolder(path);
}

/**
 * To be asked right before anything in the folder is used.
 * @returns false when there is no such folder, or none that this user can see
 * @throws RuntimeError runtime-folder-unsafe
 */
export function isPrivateFolder(path: string): boolean {
  let stats: Stats;
  try {
    stats = lstatSync(path);
  } catch {
    return false;
  }
  if (!stats.isDirectory()) throw unsafe(path, "is not a folder");
  if (stats.uid !== process.getuid?.()) throw unsafe(path, "belongs to another user");
  if ((stats.mode & 0o077) !== 0) throw unsafe(path, "is open to other users");
  return true;
}

function unsafe(path: string, problem: string, remedy = `Remove it, or run: chmod 700 ${path}`): RuntimeError {
  return new RuntimeError("runtime-folder-unsafe", `The folder ${path} ${problem}`, remedy);
}

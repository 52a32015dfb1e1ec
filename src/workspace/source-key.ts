import { createHash } from "node:crypto";
import { realpathSync } from "node:fs";
import { hostname } from "node:os";
import { resolve } from "node:path";

/**
 * Names the host's cache of a local directory: the same directory of the same machine gives the same key. A directory
 * that does not exist is named by its path, so that asking about it needs no directory.
 */
export function sourceKey(path: string): string {
  let place = resolve(path);
  try {
    place = realpathSync(place);
  } catch {
    // Missing or unreadable; the path itself has to do.
  }
  return createHash("sha256").update(`${hostname()}\0${place}`).digest("hex");
}

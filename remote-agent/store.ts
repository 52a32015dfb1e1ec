import { randomBytes } from "node:crypto";
import { closeSync, fsyncSync, mkdirSync, openSync, readFileSync, renameSync, rmSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import type * as z from "zod/mini";

/** Files that must be whole after a crash at any line: written beside their place, then renamed over it. */

export interface WriteOptions {
  /** Wait for the disk, so that the file also survives a power failure. Off where a reboot makes the file moot. */
  durable: boolean;
  /** File mode; 0600 unless the file has to be executable. */
  mode?: number;
}

/** Writes a file so that readers see either the old content or the new one. */
export function writeFileAtomically(path: string, content: string | Uint8Array, options: WriteOptions): void {
  const temporary = `${path}.${randomBytes(6).toString("hex")}.tmp`;
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const fd = openSync(temporary, "wx", options.mode ?? 0o600);
  try {
    try {
      const bytes = typeof content === "string" ? Buffer.from(content) : content;
      let at = 0;
      while (at < bytes.length) at += writeSync(fd, bytes, at);
      if (options.durable) fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
  if (options.durable) syncFolder(dirname(path));
}

export function writeJsonAtomically(path: string, value: unknown, options: WriteOptions): void {
  writeFileAtomically(path, `${JSON.stringify(value, null, 2)}\n`, options);
}

/**
 * @returns undefined when the file does not exist
 * @throws Error when it cannot be read, is not JSON or not of this shape
 */
export function readJson<T extends z.ZodMiniType>(path: string, schema: T): z.infer<T> | undefined {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
  return schema.parse(JSON.parse(text));
}

/** A rename is on disk only when its folder is. */
export function syncFolder(path: string): void {
  const fd = openSync(path, "r");
  try {
    fsyncSync(fd);
  } catch {
    // Some file systems refuse to sync a folder; nothing more can be done there.
  } finally {
    closeSync(fd);
  }
}

export function isMissing(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException).code;
  return code === "ENOENT" || code === "ENOTDIR";
}

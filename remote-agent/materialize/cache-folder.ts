import { createHash, randomUUID } from "node:crypto";
import { mkdir, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { withLock } from "./lock.ts";
import { removeTree } from "./remove-tree.ts";
import type { Repository } from "./repository.ts";

/** Stands in a cache while git writes it; found later, it says that git may have been killed at it. */
const BUSY_MARKER = "paseo-busy";

/**
 * Where the cache of a source is.
 * @param kind keeps a URL and a directory key apart
 * @param name URL without credentials, or the key of a directory source
 */
export function cachePath(cacheRoot: string, kind: "directory" | "url", name: string): string {
  return join(cacheRoot, `${createHash("sha256").update(`${kind}\0${name}`).digest("hex")}.git`);
}

export async function cacheExists(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined)) !== undefined;
}

/**
 * Marks a cache while a task writes it. After a task that did not succeed the marker stays, and the next task first
 * removes what a killed git leaves behind: lock files, which would refuse every later write, and half-received packs.
 * The caller holds the lock of this cache.
 */
export async function whileBusy<T>(cache: string, task: () => Promise<T>): Promise<T> {
  const marker = join(cache, BUSY_MARKER);
  if (await stat(marker).catch(() => undefined)) await sweep(cache);
  await writeFile(marker, "");
  const result = await task();
  await rm(marker, { force: true });
  return result;
}

async function sweep(cache: string): Promise<void> {
  const remove = (folder: string, names: string[]) =>
    Promise.all(names.map((name) => rm(join(folder, name), { force: true })));
  for (const folder of [cache, ...(await foldersBelow(join(cache, "refs"))), join(cache, "objects", "info")]) {
    await remove(
      folder,
      (await namesIn(folder)).filter((name) => name.endsWith(".lock")),
    );
  }
  const packs = join(cache, "objects", "pack");
  await remove(
    packs,
    (await namesIn(packs)).filter((name) => /^\.?tmp[_-]/.test(name)),
  );
}

async function foldersBelow(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  const below = await Promise.all(
    entries.filter((entry) => entry.isDirectory()).map((entry) => foldersBelow(join(folder, entry.name))),
  );
  return [folder, ...below.flat()];
}

async function namesIn(folder: string): Promise<string[]> {
  return readdir(folder).catch(() => []);
}

/** Moves a cache out of the way in one step, so that none is better than half of one, and removes it then. */
export async function discardCache(cache: string): Promise<void> {
  const aside = `${cache}.broken-${randomUUID()}`;
  await rename(cache, aside).catch(() => {});
  await removeTree(aside);
}

export async function ensureCacheRoot(cacheRoot: string): Promise<void> {
  await mkdir(cacheRoot, { recursive: true, mode: 0o700 });
}

/** Every 50 packs git makes one of them; objects that nothing refers to are kept for two weeks (git's own defaults). */
const TIDY_CONFIG = ["-c", "gc.auto=6700", "-c", "gc.autoPackLimit=50", "-c", "gc.autoDetach=false"];

/** Keeps a cache from growing by one pack per use. It is a convenience: that it fails is nobody's concern. */
export async function tidyCache(repository: Repository): Promise<void> {
  await repository.run([...TIDY_CONFIG, "gc", "--auto", "--quiet"]).catch(() => {});
}

/**
 * Whether a cache itself is damaged, as opposed to a failure elsewhere. Looks at all of its commits and trees, so it is
 * asked only after something has failed.
 */
async function isDamaged(repository: Repository): Promise<boolean> {
  if ((await repository.run(["rev-parse", "--git-dir"])).exitCode !== 0) return true;
  return (await repository.run(["fsck", "--connectivity-only", "--no-dangling", "--no-progress"])).exitCode !== 0;
}

/**
 * Throws a damaged cache away, so that the next attempt starts anew.
 * @returns false when the cache is whole, or was never made
 */
export async function discardIfDamaged(repository: Repository): Promise<boolean> {
  return withLock(repository.gitFolder, repository.signal, async () => {
    if (!(await cacheExists(repository.gitFolder)) || !(await isDamaged(repository))) return false;
    await discardCache(repository.gitFolder);
    return true;
  });
}

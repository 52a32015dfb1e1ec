import { lstatSync, statSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { RuntimeError } from "../wire/errors.ts";
import { git, gitFailure, runGit } from "../wire/git-process.ts";
import { MAX_SHALLOW_COMMITS } from "../wire/source.ts";

/** A git work tree on this machine, and where the parts of its repository are (a linked work tree has them elsewhere). */
export interface WorkTree {
  /** Absolute path of its top folder. */
  top: string;
  /** The source directory relative to `top`, empty when it is the top itself. */
  subdirectory: string;
  objectFormat: "sha1" | "sha256";
  objectFolder: string;
  indexPath: string;
  shallow: string[];
}

/**
 * @param path a directory
 * @returns undefined when the directory is not in a git work tree
 * @throws RuntimeError git-missing or git-failed when it is in a repository that git cannot read
 */
export async function findWorkTree(path: string, signal: AbortSignal): Promise<WorkTree | undefined> {
  let found: Awaited<ReturnType<typeof runGit>>;
  try {
    found = await runGit(["rev-parse", "--show-toplevel"], { cwd: path, signal });
  } catch (error) {
    if (error instanceof RuntimeError && error.code === "git-missing" && !isInRepository(path)) return undefined;
    throw error;
  }
  const top = found.stdout.toString("utf8").replace(/\n$/, "");
  if (found.exitCode !== 0 || top === "") {
    if (!isInRepository(path)) return undefined;
    throw gitFailure(`read the repository of ${path}`, found);
  }
  const ask = (...args: string[]) =>
    git(["rev-parse", ...args], { cwd: path, signal, doing: `read the repository of ${path}` });
  const place = async (name: string) => resolve(path, await ask("--git-path", name));
  const objectFormat = await ask("--show-object-format");
  return {
    top,
    subdirectory: (await ask("--show-prefix")).replace(/\/$/, ""),
    objectFormat: objectFormat === "sha256" ? "sha256" : "sha1",
    objectFolder: await place("objects"),
    indexPath: await place("index"),
    shallow: await readShallow(await place("shallow"), path),
  };
}

async function readShallow(file: string, path: string): Promise<string[]> {
  const text = await readFile(file, "utf8").catch(() => "");
  const commits = text.split("\n").filter((line) => line !== "");
  if (commits.length > MAX_SHALLOW_COMMITS) {
    throw new RuntimeError(
      "source-unsupported",
      `The shallow repository of ${path} ends at ${commits.length} commits, more than the ${MAX_SHALLOW_COMMITS} supported`,
      "Fetch its full history first: git fetch --unshallow",
    );
  }
  return commits;
}

/**
 * Whether a repository begins in this directory or above it, as git would look for one: git's exit code does not tell
 * "no repository" from "a repository that I refuse to read" (say, one that another user owns).
 */
function isInRepository(path: string): boolean {
  try {
    const device = statSync(path).dev;
    for (let folder = resolve(path); statSync(folder).dev === device; folder = dirname(folder)) {
      if (hasGitDirectory(folder)) return true;
      if (folder === dirname(folder)) return false;
    }
  } catch {
    // A folder above that may not be looked into ends the search, as it does for git.
  }
  return false;
}

function hasGitDirectory(folder: string): boolean {
  const candidate = join(folder, ".git");
  const stats = lstatSync(candidate, { throwIfNoEntry: false });
  if (!stats) return false;
  return stats.isFile() || lstatSync(join(candidate, "HEAD"), { throwIfNoEntry: false }) !== undefined;
}

import { lstatSync } from "node:fs";
import { open, readFile, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { RuntimeError } from "../wire/errors.ts";
import { type GitOptions, git, gitFailure, runGit } from "../wire/git-process.ts";
import { GIT_STATUS_ARGUMENTS, parseStatus, type StatusEntry } from "../wire/git-status.ts";
import { type GitSourceManifest, MAX_INTENT_TO_ADD_PATHS } from "../wire/source.ts";
import { count } from "./count.ts";
import { existingObjects } from "./refs.ts";
import type { Scratch } from "./scratch.ts";
import type { WorkTree } from "./work-tree.ts";

type UncommittedState = NonNullable<GitSourceManifest["state"]>;

/** Rounds after which files that change while they are read are an error. */
const MAX_ROUNDS = 5;
const WORK_TREE_INDEX = "work-tree-index";
const STAGED_INDEX = "staged-index";
const BLOB_INDEX = "blob-index";
const GITLINK_MODE = "160000";
/** gitformat-index(5) */
const SPARSE_INDEX_EXTENSION = "sdir";

/**
 * Writes the uncommitted state of a work tree as two trees into the scratch folder: what is staged, and what the files
 * are. File content passes through the account's `core.autocrlf` and clean filters as it does for `git add`; what such
 * a filter keeps outside of git (LFS objects) does not travel, which a progress text says.
 *
 * A conflict is not reproduced: its paths come out as unstaged changes against HEAD, with the conflict markers in them.
 *
 * @throws RuntimeError source-unreadable when files keep changing, git-failed when one cannot be read
 */
export async function captureUncommitted(
  tree: WorkTree,
  scratch: Scratch,
  signal: AbortSignal,
  progress: (text: string) => void,
): Promise<UncommittedState> {
  await copyIndex(tree.indexPath, scratch.path(STAGED_INDEX));
  await copyIndex(scratch.path(STAGED_INDEX), scratch.path(WORK_TREE_INDEX));
  const before = await readStatus(tree, scratch, signal);
  const intentToAdd = before
    .filter((entry) => entry.intentToAdd)
    .map((entry) => Buffer.from(entry.path, "latin1").toString("base64"));
  await resolveConflicts(tree, scratch, before, signal);
  await recordWorkTree(tree, scratch, before, signal, progress);
  return {
    index: await writeTree(tree, scratch, STAGED_INDEX, signal),
    workTree: await writeTree(tree, scratch, WORK_TREE_INDEX, signal),
    intentToAdd: intentToAdd.slice(0, MAX_INTENT_TO_ADD_PATHS),
  };
}

/**
 * The copy gets an older time than the original: git compares a file that is not older than its index by content, so a
 * change within the index's own clock tick is not lost. A missing index is an empty one.
 */
async function copyIndex(from: string, to: string): Promise<void> {
  const file = await open(from, "r").catch(() => undefined);
  if (!file) return;
  try {
    const seconds = Math.floor((await file.stat()).mtimeMs / 1000);
    await writeFile(to, await file.readFile());
    await utimes(to, seconds, seconds);
  } finally {
    await file.close();
  }
}

async function readStatus(tree: WorkTree, scratch: Scratch, signal: AbortSignal): Promise<StatusEntry[]> {
  // Submodules keep the commit that is staged; their content does not travel.
  const args = [...GIT_STATUS_ARGUMENTS, "--ignore-submodules=all"];
  const result = await runGit(args, { cwd: tree.top, signal, env: scratch.envWithIndex(WORK_TREE_INDEX) });
  if (result.exitCode !== 0) throw gitFailure(`read the state of ${tree.top}`, result);
  return parseStatus(result.stdout);
}

/** Repeats until git sees no difference between the files and the index of the copy: then the copy is one consistent state. */
async function recordWorkTree(
  tree: WorkTree,
  scratch: Scratch,
  first: StatusEntry[],
  signal: AbortSignal,
  progress: (text: string) => void,
): Promise<void> {
  let changed = changedFiles(tree, first);
  await reportExclusions(tree, scratch, first, changed, signal, progress);
  for (let round = 1; changed.length > 0; round += 1) {
    if (round > MAX_ROUNDS) {
      throw new RuntimeError(
        "source-unreadable",
        `Files of ${tree.top} keep changing while they are read, among them ${JSON.stringify(Buffer.from(changed[0]!, "latin1").toString("utf8"))}`,
        "Try again when the program that writes them has finished",
      );
    }
    // Ids only: git would "freshen" the files of objects that the source has already, that is, change their times.
    await git(["update-index", "--info-only", "-z", "--add", "--remove", "--replace", "--stdin"], {
      cwd: tree.top,
      signal,
      env: scratch.envWithIndex(WORK_TREE_INDEX),
      doing: `read the changed files of ${tree.top}`,
      input: pathList(changed),
    });
    await writeNewBlobs(tree, scratch, changed, signal);
    changed = changedFiles(tree, await readStatus(tree, scratch, signal));
  }
}

/** Writes the content of those files that no object of the source has yet. */
async function writeNewBlobs(tree: WorkTree, scratch: Scratch, paths: string[], signal: AbortSignal): Promise<void> {
  const options: GitOptions = { cwd: tree.top, signal, env: scratch.envWithIndex(WORK_TREE_INDEX) };
  const listing = await runGit(["ls-files", "--stage", "-z"], options);
  if (listing.exitCode !== 0) throw gitFailure(`read the changed files of ${tree.top}`, listing);
  const ids = new Map<string, string>();
  const changed = new Set(paths);
  for (const line of listing.stdout.toString("latin1").split("\0")) {
    const path = line.slice(line.indexOf("\t") + 1);
    const [mode, id = ""] = line.split(" ", 2);
    if (changed.has(path) && mode !== GITLINK_MODE) ids.set(path, id);
  }
  const present = await existingObjects(tree, [...new Set(ids.values())], signal, scratch.env);
  const missing = [...ids].filter(([, id]) => !present.has(id)).map(([path]) => path);
  if (missing.length === 0) return;
  // From the index as it was, for git looks there how a file's line endings are.
  await copyIndex(scratch.path(STAGED_INDEX), scratch.path(BLOB_INDEX));
  await git(["update-index", "-z", "--add", "--remove", "--replace", "--stdin"], {
    ...options,
    env: scratch.envWithIndex(BLOB_INDEX),
    doing: `read the changed files of ${tree.top}`,
    input: pathList(missing),
  });
}

/**
 * Without the source's objects in sight: git writes every tree that it makes into the scratch folder, instead of
 * freshening those that the source has. A sparse index is the exception, for its folders stand for trees of the source.
 */
async function writeTree(tree: WorkTree, scratch: Scratch, index: string, signal: AbortSignal): Promise<string> {
  const isSparse = (await readFile(scratch.path(index)).catch(() => Buffer.alloc(0))).includes(SPARSE_INDEX_EXTENSION);
  return git(["write-tree", "--missing-ok"], {
    cwd: tree.top,
    signal,
    env: { ...scratch.envWithIndex(index), ...(isSparse ? {} : { GIT_ALTERNATE_OBJECT_DIRECTORIES: "" }) },
    doing: `record the state of ${tree.top}`,
  });
}

/** A directory in the list is a repository of its own; what is neither file nor link cannot be in git. */
function changedFiles(tree: WorkTree, entries: StatusEntry[]): string[] {
  const paths = entries.filter((entry) => entry.inWorkTree && !entry.path.endsWith("/")).map((entry) => entry.path);
  return paths.filter((path) => !isSpecialFile(tree, path));
}

function isSpecialFile(tree: WorkTree, path: string): boolean {
  try {
    const stats = lstatSync(Buffer.from(join(Buffer.from(tree.top).toString("latin1"), path), "latin1"));
    return !stats.isFile() && !stats.isSymbolicLink() && !stats.isDirectory();
  } catch {
    // Deleted, which is a change to record.
    return false;
  }
}

/** Conflicted paths get HEAD's entry in the staged index, for a tree has no place for the three sides of a conflict. */
async function resolveConflicts(
  tree: WorkTree,
  scratch: Scratch,
  entries: StatusEntry[],
  signal: AbortSignal,
): Promise<void> {
  const conflicted = new Set(entries.filter((entry) => entry.unmerged).map((entry) => entry.path));
  if (conflicted.size === 0) return;
  const options: GitOptions = { cwd: tree.top, signal, env: scratch.envWithIndex(STAGED_INDEX) };
  const head = await runGit(["ls-tree", "-r", "-z", "--full-tree", "HEAD"], options);
  if (head.exitCode !== 0) throw gitFailure(`read HEAD of ${tree.top}`, head);
  const entriesOfHead = head.stdout
    .toString("latin1")
    .split("\0")
    .filter((line) => conflicted.has(line.slice(line.indexOf("\t") + 1)));
  const removals = [...conflicted].map((path) => `0 ${"0".repeat(tree.objectFormat === "sha256" ? 64 : 40)}\t${path}`);
  await git(["update-index", "-z", "--index-info"], {
    ...options,
    doing: `set the conflicts of ${tree.top} aside`,
    input: pathList([...removals, ...entriesOfHead]),
  });
}

async function reportExclusions(
  tree: WorkTree,
  scratch: Scratch,
  entries: StatusEntry[],
  changed: string[],
  signal: AbortSignal,
  progress: (text: string) => void,
): Promise<void> {
  const repositories = entries.filter((entry) => entry.path.endsWith("/")).length;
  if (repositories > 0)
    progress(`${count(repositories, "untracked repository", "untracked repositories")} left behind.`);
  if (lstatSync(join(tree.top, ".gitmodules"), { throwIfNoEntry: false })) {
    progress("The contents of submodules are left behind.");
  }
  if (entries.some((entry) => entry.unmerged)) progress("Conflicted files arrive as unstaged changes.");
  if (changed.length === 0) return;
  const attributes = await runGit(["check-attr", "-z", "--stdin", "filter"], {
    cwd: tree.top,
    signal,
    env: scratch.envWithIndex(WORK_TREE_INDEX),
    input: pathList(changed),
  });
  // Records of three: path, attribute, value.
  const values = attributes.stdout
    .toString("latin1")
    .split("\0")
    .filter((_, index) => index % 3 === 2);
  const filtered = values.filter((value) => value !== "unspecified" && value !== "unset").length;
  if (filtered > 0) {
    progress(`${count(filtered, "changed file")} filtered by git; what a filter keeps outside of git is left behind.`);
  }
}

function pathList(paths: string[]): Buffer {
  return Buffer.from(paths.map((path) => `${path}\0`).join(""), "latin1");
}

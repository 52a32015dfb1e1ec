import { git, runGit } from "../wire/git-process.ts";
import { type GitSourceManifest, MAX_SOURCE_REF_CHARACTERS, MAX_SOURCE_REFS, type SourceRef } from "../wire/source.ts";
import type { WorkTree } from "./work-tree.ts";

/** What a source's refs are, reduced to what can travel. */
export interface SourceRefs {
  refs: SourceRef[];
  symbolicRefs: { name: string; target: string }[];
  head: GitSourceManifest["head"];
  /** Commit of HEAD; absent on an unborn branch. */
  headCommit: string | undefined;
  /** Refs that do not travel, because there are too many, their names are not text, or their objects are missing. */
  dropped: number;
  /** Those of the commits in question that this repository has. */
  known: string[];
}

/** What a person misses least comes last. */
const REF_PREFIXES = ["refs/heads/", "refs/remotes/", "refs/tags/"];

/**
 * Reads all branches, remote-tracking branches and tags, and HEAD.
 * @param inQuestion commit ids of which the caller wants to know whether they are here
 */
export async function readRefs(
  tree: WorkTree,
  inQuestion: readonly string[],
  signal: AbortSignal,
): Promise<SourceRefs> {
  const options = { cwd: tree.top, signal, doing: `read the refs of ${tree.top}` };
  const head = await readHead(tree, signal);
  const headCommit = await revisionId(tree, "HEAD^{commit}", signal);
  const listing = await git(
    [
      "for-each-ref",
      "--format=%(objectname)%00%(refname)%00%(symref)",
      ...REF_PREFIXES.map((prefix) => prefix.slice(0, -1)),
    ],
    options,
  );
  const all = listing
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      const [id = "", name = "", target = ""] = line.split("\0");
      return { id, name, target };
    });
  const present = await existingObjects(tree, [...new Set([...all.map((ref) => ref.id), ...inQuestion])], signal);
  const kept = withinBounds(
    all.filter((ref) => present.has(ref.id) && isTravelable(ref.name)),
    head.kind === "branch" ? head.ref : "",
  );
  const names = new Set(kept.map((ref) => ref.name));
  return {
    refs: kept.filter((ref) => ref.target === "").map(({ name, id }) => ({ name, id })),
    symbolicRefs: kept.filter((ref) => names.has(ref.target)).map(({ name, target }) => ({ name, target })),
    head,
    headCommit,
    dropped: all.length - kept.length,
    known: inQuestion.filter((id) => present.has(id)),
  };
}

async function readHead(tree: WorkTree, signal: AbortSignal): Promise<GitSourceManifest["head"]> {
  const symbolic = await runGit(["symbolic-ref", "--quiet", "HEAD"], { cwd: tree.top, signal });
  const ref = symbolic.stdout.toString("utf8").trim();
  if (symbolic.exitCode === 0 && ref.startsWith("refs/heads/")) return { kind: "branch", ref };
  const doing = `read HEAD of ${tree.top}`;
  return {
    kind: "detached",
    id: await git(["rev-parse", "--verify", "HEAD^{commit}"], { cwd: tree.top, signal, doing }),
  };
}

export async function revisionId(tree: WorkTree, revision: string, signal: AbortSignal): Promise<string | undefined> {
  const result = await runGit(["rev-parse", "--verify", "--quiet", revision], { cwd: tree.top, signal });
  return result.exitCode === 0 ? result.stdout.toString("utf8").trim() : undefined;
}

/** Those of the ids that are objects here. @param env where else to look, from a scratch folder */
export async function existingObjects(
  tree: WorkTree,
  ids: string[],
  signal: AbortSignal,
  env: Readonly<Record<string, string>> = {},
): Promise<Set<string>> {
  const output = await git(["cat-file", "--batch-check=%(objectname) %(objecttype)"], {
    cwd: tree.top,
    signal,
    doing: `look up objects of ${tree.top}`,
    input: ids.map((id) => `${id}\n`).join(""),
    // A partial clone would fetch every commit of the host that it does not have.
    env: { ...env, GIT_NO_LAZY_FETCH: "1" },
  });
  const lines = output.split("\n").filter((line) => /^[0-9a-f]{40,64} (?:commit|tag|tree|blob)$/.test(line));
  return new Set(lines.map((line) => line.slice(0, line.indexOf(" "))));
}

function isTravelable(name: string): boolean {
  return name.length <= 1024 && !name.includes("\ufffd") && !/[\x00-\x20\x7f]/.test(name);
}

function withinBounds<T extends { name: string }>(refs: T[], first: string): T[] {
  const rank = (name: string) => (name === first ? -1 : REF_PREFIXES.findIndex((prefix) => name.startsWith(prefix)));
  const ordered = [...refs].sort((a, b) => rank(a.name) - rank(b.name));
  let characters = 0;
  let count = 0;
  while (count < ordered.length && count < MAX_SOURCE_REFS && characters <= MAX_SOURCE_REF_CHARACTERS) {
    characters += ordered[count]!.name.length;
    count += 1;
  }
  return ordered.slice(0, count);
}

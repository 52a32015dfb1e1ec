import { createHash } from "node:crypto";
import { lstat, readdir, readlink } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod/mini";
import { gitFailure } from "../../src/wire/git-process.ts";
import { GIT_STATUS_ARGUMENTS, parseStatus } from "../../src/wire/git-status.ts";
import { Repository } from "./repository.ts";

/** Commits that are remembered; a branch that is moved to another of an older source's commits then counts as work. */
const MAX_KNOWN_COMMITS = 1_000;

/** Milliseconds after which the question counts as answered with yes. */
const DEADLINE_MS = 60_000;

const Digest = z.string().check(z.regex(/^[0-9a-f]{64}$/));

/** What a workspace's content was when it was made, in a form that is cheap to keep and to compare. */
export const BaselineSchema = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("plain"), files: Digest }),
  z.strictObject({
    kind: z.literal("git"),
    /** Of everything that git reports as different from HEAD. */
    changes: Digest,
    /** Commits that branches, remote-tracking branches, tags and HEAD stood at. */
    commits: z.array(z.string().check(z.regex(/^[0-9a-f]{40,64}$/))).check(z.maxLength(MAX_KNOWN_COMMITS)),
  }),
]);
export type Baseline = z.infer<typeof BaselineSchema>;

export async function captureBaseline(
  contentPath: string,
  kind: "git" | "plain",
  signal: AbortSignal,
): Promise<Baseline> {
  if (kind === "plain") return { kind, files: await digestOfFiles(contentPath) };
  const workspace = new Repository(join(contentPath, ".git"), contentPath, signal);
  return { kind, changes: await digestOfChanges(workspace), commits: await knownCommits(workspace) };
}

/**
 * Whether a workspace has anything that would be lost with it: a file that differs from what materialisation put
 * there (ignored files aside), or a commit on a branch, at HEAD or in the stash that was not there then. In doubt: yes.
 * Where nothing is lost the workspace can be deleted, otherwise it belongs into the trash.
 */
export async function hasUnsavedWork(contentPath: string, baseline: Baseline): Promise<boolean> {
  try {
    if (baseline.kind === "plain") return (await digestOfFiles(contentPath)) !== baseline.files;
    const workspace = new Repository(join(contentPath, ".git"), contentPath, AbortSignal.timeout(DEADLINE_MS));
    return (
      (await digestOfChanges(workspace)) !== baseline.changes || (await hasNewCommits(workspace, baseline.commits))
    );
  } catch {
    return true;
  }
}

/** Git's own report covers what is staged; the files behind it are told apart by size and times. */
async function digestOfChanges(workspace: Repository): Promise<string> {
  const status = await workspace.run([...GIT_STATUS_ARGUMENTS, "--ignore-submodules=none"]);
  if (status.exitCode !== 0) throw gitFailure("read the state of the workspace", status);
  const digest = createHash("sha256").update(status.stdout);
  const top = Buffer.from(`${workspace.workTree}/`).toString("latin1");
  for (const { path } of parseStatus(status.stdout)) {
    digest.update(await fileIdentity(Buffer.from(top + path, "latin1")));
  }
  return digest.digest("hex");
}

async function fileIdentity(path: Buffer): Promise<string> {
  const stats = await lstat(path, { bigint: true }).catch(() => undefined);
  if (!stats) return "missing;";
  // A folder in git's report is a repository of its own; what happens inside it shows in nothing but doubt.
  return `${stats.mode} ${stats.size} ${stats.mtimeNs} ${stats.ctimeNs};`;
}

async function knownCommits(workspace: Repository): Promise<string[]> {
  const head = await workspace.idOf("HEAD^{commit}");
  const format = "%(if)%(*objectname)%(then)%(*objectname)%(else)%(objectname)%(end)";
  const tips = await workspace.git("read the refs", [
    "for-each-ref",
    `--format=${format}`,
    "refs/heads",
    "refs/remotes",
    "refs/tags",
  ]);
  const commits = new Set([...(head ? [head] : []), ...tips.split("\n").filter((line) => line !== "")]);
  return [...commits].slice(0, MAX_KNOWN_COMMITS);
}

async function hasNewCommits(workspace: Repository, known: string[]): Promise<boolean> {
  if ((await workspace.idOf("refs/stash")) !== undefined) return true;
  const head = await workspace.idOf("HEAD^{commit}");
  const branches = await workspace.refs("refs/heads");
  const tips = new Set([...(head ? [head] : []), ...branches.values()]);
  if (tips.size === 0) return false;
  const lines = [...tips, ...known.map((id) => `^${id}`)];
  const found = await workspace.git("compare the commits", ["rev-list", "--max-count=1", "--stdin"], {
    input: lines.map((line) => `${line}\n`).join(""),
  });
  return found !== "";
}

/** Names, kinds, sizes, permissions and times; the time of change (ctime) cannot be set back by a program. */
async function digestOfFiles(contentPath: string): Promise<string> {
  const digest = createHash("sha256");
  await walk(contentPath, "");

  async function walk(folder: string, relative: string): Promise<void> {
    const entries = await readdir(folder, { withFileTypes: true });
    for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      const path = join(folder, entry.name);
      const name = `${relative}${entry.name}`;
      if (entry.isDirectory()) {
        digest.update(`${name}/\0`);
        await walk(path, `${name}/`);
      } else {
        const target = entry.isSymbolicLink() ? await readlink(path) : "";
        digest.update(`${name}\0${target}\0${await fileIdentity(Buffer.from(path))}`);
      }
    }
  }

  return digest.digest("hex");
}

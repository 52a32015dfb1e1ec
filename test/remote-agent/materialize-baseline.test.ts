import { mkdirSync, renameSync, rmSync, statSync, unlinkSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { captureBaseline } from "../../remote-agent/materialize/baseline.ts";
import { type Baseline, BaselineSchema, hasUnsavedWork } from "../../remote-agent/materialize/index.ts";
import { commit, git, type Made, useFixture, write } from "../workspace/fixture.ts";

const fixture = useFixture();

/** As the agent keeps it: through JSON. */
const unsaved = (made: Made, path = made.path) =>
  hasUnsavedWork(path, BaselineSchema.parse(JSON.parse(JSON.stringify(made.baseline))));

async function dirtyWorkspace(): Promise<Made> {
  const f = fixture();
  const path = f.repository("project", { "a.txt": "1\n", "b.txt": "1\n", ".gitignore": "*.log\n" });
  git(path, "branch", "other");
  git(path, "tag", "-a", "-m", "x", "v1", commit(path, "tagged"));
  git(path, "reset", "-q", "--hard", "HEAD~1");
  write(join(path, "a.txt"), "2\n");
  write(join(path, "new"), "1");
  git(path, "add", "new");
  return f.fromDirectory(path, { paseoConfig: "{}" });
}

test("what travelled, what is ignored and commits that were there are no unsaved work", async () => {
  const made = await dirtyWorkspace();
  expect(await unsaved(made)).toBe(false);
  write(join(made.path, "build.log"), "ignored");
  git(made.path, "status");
  git(made.path, "branch", "again", "v1");
  git(made.path, "branch", "-D", "other");
  expect(await unsaved(made)).toBe(false);
  const moved = `${made.path}-moved`;
  renameSync(made.path, moved);
  expect(await unsaved(made, moved)).toBe(false);
});

/** Each is done to what the ones before have left, so they are told from a baseline taken just before. */
const ACTS: [string, (path: string) => void][] = [
  ["a file changed", (path) => write(join(path, "b.txt"), "2\n")],
  ["a file that was changed already, changed again", (path) => write(join(path, "a.txt"), "3\n")],
  ["a file that was untracked, changed", (path) => write(join(path, "paseo.json"), "[]")],
  ["a file deleted", (path) => unlinkSync(join(path, "b.txt"))],
  ["a new file", (path) => write(join(path, "newer"), "1")],
  ["something staged", (path) => git(path, "add", "a.txt")],
  ["something unstaged", (path) => git(path, "reset", "-q")],
  ["a change thrown away", (path) => git(path, "checkout", "-q", "a.txt")],
  ["another repository inside", (path) => git(path, "init", "-q", "inner")],
  ["a commit", (path) => git(path, "commit", "-q", "-a", "-m", "x")],
  ["an empty commit", (path) => git(path, "commit", "-q", "--allow-empty", "-m", "x")],
  [
    "a commit on another branch",
    (path) => git(path, "branch", "side", git(path, "commit-tree", "-m", "side", "HEAD^{tree}")),
  ],
  [
    "a commit at a detached HEAD",
    (path) => git(path, "update-ref", "--no-deref", "HEAD", git(path, "commit-tree", "-m", "loose", "HEAD^{tree}")),
  ],
  [
    "a stash",
    (path) => {
      const stashed = git(path, "commit-tree", "-p", "HEAD", "-m", "stash", "HEAD^{tree}");
      git(path, "update-ref", "--create-reflog", "refs/stash", stashed);
    },
  ],
];

test("every change since then is unsaved work", async () => {
  const { path } = await dirtyWorkspace();
  for (const [name, act] of ACTS) {
    const baseline = await captureBaseline(path, "git", new AbortController().signal);
    expect(await hasUnsavedWork(path, baseline), `before ${name}`).toBe(false);
    act(path);
    expect(await hasUnsavedWork(path, baseline), name).toBe(true);
  }
});

test("a workspace whose repository or content is gone is in doubt", async () => {
  const made = await dirtyWorkspace();
  rmSync(join(made.path, ".git", "HEAD"));
  expect(await unsaved(made)).toBe(true);
  rmSync(join(made.path, ".git"), { recursive: true });
  expect(await unsaved(made)).toBe(true);
  rmSync(made.path, { recursive: true });
  expect(await unsaved(made)).toBe(true);
});

test("a commit after everything was clean counts, and a fresh clone has nothing unsaved", async () => {
  const f = fixture();
  const path = f.repository("origin", { a: "1" });
  git(path, "branch", "feature", git(path, "commit-tree", "-m", "x", "HEAD^{tree}"));
  const made = await f.fromUrl({ url: path });
  expect(await unsaved(made)).toBe(false);
  git(made.path, "checkout", "-q", "feature");
  expect(await unsaved(made)).toBe(false);
  commit(made.path);
  expect(await unsaved(made)).toBe(true);
});

test("an empty repository has nothing unsaved until its first commit", async () => {
  const f = fixture();
  git(f.folder, "init", "-q", "--bare", f.path("empty.git"));
  const made = await f.fromUrl({ url: f.path("empty.git") });
  expect(await unsaved(made)).toBe(false);
  commit(made.path);
  expect(await unsaved(made)).toBe(true);
});

test.each<[string, boolean, (path: string) => void]>([
  ["nothing done", false, () => {}],
  [
    "a file changed without a change of size and time",
    true,
    (path) => {
      const { atime, mtime } = statSync(join(path, "a"));
      writeFileSync(join(path, "a"), "2");
      utimesSync(join(path, "a"), atime, mtime);
    },
  ],
  ["a file added", true, (path) => write(join(path, "sub", "new"), "1")],
  ["a file removed", true, (path) => unlinkSync(join(path, "a"))],
  ["a file renamed", true, (path) => renameSync(join(path, "a"), join(path, "c"))],
  ["a folder added", true, (path) => mkdirSync(join(path, "folder"))],
  ["all gone", true, (path) => rmSync(path, { recursive: true })],
])("a plain directory with %s: %j", async (_name, expected, act) => {
  const f = fixture();
  write(f.path("plain", "a"), "1");
  write(f.path("plain", "sub", "b"), "1");
  const made = await f.fromDirectory(f.path("plain"));
  act(made.path);
  expect(await unsaved(made)).toBe(expected);
});

test("a baseline of nonsense means yes", async () => {
  const f = fixture();
  const made = await f.fromDirectory(f.repository("project"));
  const zero = "0".repeat(64);
  for (const baseline of [
    { ...made.baseline, commits: [zero.slice(0, 40)] },
    { kind: "plain", files: zero },
  ] as Baseline[]) {
    expect(await hasUnsavedWork(made.path, baseline)).toBe(true);
  }
});

import { execFileSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { commit, exists, type Fixture, git, status, type Transfer, useFixture, write } from "./fixture.ts";

const fixture = useFixture();

/** Name, mode, inode, times and content of everything below a folder; names as bytes, for one of them is not UTF-8. */
function snapshot(folder: string, found: Record<string, string> = {}): Record<string, string> {
  for (const name of readdirSync(Buffer.from(folder, "latin1"), { encoding: "latin1" })) {
    const path = Buffer.from(join(folder, name), "latin1");
    const stats = lstatSync(path, { bigint: true });
    const content = stats.isFile() ? createHash("sha1").update(readFileSync(path)).digest("hex") : "";
    found[path.toString("latin1")] = `${stats.mode} ${stats.ino} ${stats.mtimeNs} ${stats.ctimeNs} ${content}`;
    if (stats.isDirectory()) snapshot(path.toString("latin1"), found);
  }
  return found;
}

/** A work tree in every state that git can report at once. */
function dirty(f: Fixture): string {
  const path = f.repository("project", {
    "modified.txt": "1\n",
    "staged.txt": "1\n",
    "both.txt": "1\n",
    "deleted.txt": "1\n",
    "removed.txt": "1\n",
    "became-folder": "1\n",
    "folder/became-file": "1\n",
    "script.sh": "#!/bin/sh\n",
    "tool.sh": "#!/bin/sh\n",
    "link-me": "1\n",
    "same.txt": "1\n",
    ".gitignore": "*.log\nnode_modules/\n",
  });
  write(join(path, "modified.txt"), "2\n");
  write(join(path, "staged.txt"), "2\n");
  write(join(path, "both.txt"), "2\n");
  git(path, "add", "staged.txt", "both.txt");
  write(join(path, "both.txt"), "3\n");
  unlinkSync(join(path, "deleted.txt"));
  git(path, "rm", "-q", "removed.txt");
  unlinkSync(join(path, "became-folder"));
  write(join(path, "became-folder", "inside"), "x");
  rmSync(join(path, "folder"), { recursive: true });
  write(join(path, "folder"), "now a file");
  chmodSync(join(path, "script.sh"), 0o755);
  chmodSync(join(path, "tool.sh"), 0o755);
  git(path, "add", "tool.sh");
  unlinkSync(join(path, "link-me"));
  symlinkSync("nowhere/at/all", join(path, "link-me"));
  symlinkSync("/absolute/target", join(path, "absolute link"));
  write(join(path, "new file.txt"), "new");
  write(join(path, "-leading dash"), "dash");
  write(join(path, "new\nline"), "newline");
  write(join(path, "täglich ☃.txt"), "unicode");
  write(join(path, 'quote"back\\slash\t'), "quotes");
  execFileSync("bash", ["-c", "printf raw > $'not-utf8-\\xff\\xfe'"], { cwd: path });
  write(join(path, "staged new.txt"), "staged");
  git(path, "add", "staged new.txt");
  unlinkSync(join(path, "staged new.txt"));
  write(join(path, "intended"), "content");
  git(path, "add", "-N", "intended");
  write(join(path, "debug.log"), "ignored");
  write(join(path, "node_modules", "x", "index.js"), "ignored");
  return path;
}

test("uncommitted state arrives exactly, and the source stays bit for bit as it was", async () => {
  const f = fixture();
  const path = dirty(f);
  const before = snapshot(path);
  const made = await f.fromDirectory(path);
  expect(snapshot(path)).toEqual(before);
  expect(status(made.path)).toEqual(status(path));
  expect(status(path).length).toBeGreaterThan(20);
  expect(made).toMatchObject({ kind: "git", root: "", branch: "main" });

  expect(readFileSync(join(made.path, "both.txt"), "utf8")).toBe("3\n");
  expect(git(made.path, "show", ":both.txt")).toBe("2");
  expect(lstatSync(join(made.path, "script.sh")).mode & 0o111).not.toBe(0);
  expect(readlinkSync(join(made.path, "link-me"))).toBe("nowhere/at/all");
  expect(readlinkSync(join(made.path, "absolute link"))).toBe("/absolute/target");
  expect(readFileSync(join(made.path, "new\nline"), "utf8")).toBe("newline");
  expect(readdirSync(Buffer.from(made.path), { encoding: "buffer" }).some((name) => name.includes(0xff))).toBe(true);
  expect(exists(made.path, "debug.log")).toBe(false);
  expect(exists(made.path, "node_modules")).toBe(false);
  expect(git(made.path, "diff", "HEAD")).toBe(git(path, "diff", "HEAD"));
  expect(git(made.path, "remote")).toBe("");
  expect(git(made.path, "rev-parse", "--is-bare-repository")).toBe("false");
  expect(git(made.path, "fsck", "--strict", "--no-dangling")).toBe("");
  expect(exists(made.path, ".git", "paseo")).toBe(false);
});

test("a change within the clock tick of the index is not lost", async () => {
  const f = fixture();
  const path = f.repository("project", { "a.txt": "one\n" });
  const time = new Date("2024-01-01T00:00:00.500Z");
  // Same size, same time as the entry and as the index itself: only content tells.
  utimesSync(join(path, "a.txt"), time, time);
  git(path, "update-index", "--refresh", "-q");
  git(path, "update-index", "--really-refresh");
  writeFileSync(join(path, "a.txt"), "two\n");
  utimesSync(join(path, "a.txt"), time, time);
  utimesSync(join(path, ".git", "index"), time, time);
  const made = await f.fromDirectory(path);
  expect(readFileSync(join(made.path, "a.txt"), "utf8")).toBe("two\n");
});

test("all refs arrive, and a second workspace needs only what is new", async () => {
  const f = fixture();
  const path = f.repository("project", { "big.bin": "x".repeat(10) });
  write(join(path, "noise"), randomBytes(300_000));
  const first = commit(path);
  git(path, "branch", "feature/one");
  git(path, "tag", "light");
  git(path, "tag", "-a", "-m", "annotated", "heavy");
  git(path, "update-ref", "refs/remotes/origin/main", first);
  git(path, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main");
  git(path, "update-ref", "refs/remotes/upstream/other", first);
  const refs = (at: string) => git(at, "for-each-ref", "--format=%(objectname) %(refname) %(symref)");

  const one: Transfer = {};
  const made = await f.fromDirectory(path, { transfer: one });
  expect(refs(made.path)).toBe(refs(path));
  expect(one.have).toEqual({ commits: [] });

  git(path, "branch", "-D", "feature/one");
  git(path, "branch", "feature");
  write(join(path, "small"), "small");
  commit(path);
  const two: Transfer = {};
  const again = await f.fromDirectory(path, { transfer: two });
  expect(refs(again.path)).toBe(refs(path));
  expect(two.have?.commits).toContain(first);
  expect(one.bytes).toBeGreaterThan(300_000);
  expect(two.bytes).toBeLessThan(2_000);
  // Neither does the unchanged work tree of an older commit travel again.
  git(path, "checkout", "-q", "--detach", first);
  write(join(path, "dirty"), "1");
  const three: Transfer = {};
  const older = await f.fromDirectory(path, { transfer: three });
  expect(three.bytes).toBeLessThan(2_000);
  expect(status(older.path)).toEqual(["? dirty", ""]);
  // The first workspace is an independent repository with files of its own.
  expect(git(made.path, "fsck", "--no-dangling")).toBe("");
  expect(git(again.path, "status", "--porcelain")).toBe("");
});

test("commits that the host names and this side does not know are ignored", async () => {
  const f = fixture();
  const path = f.repository("project");
  const transfer: Transfer = {};
  await f.fromDirectory(path);
  rmSync(join(path, ".git"), { recursive: true });
  git(path, "init", "-q", "-b", "main");
  git(path, "add", "-A");
  git(path, "commit", "-q", "-m", "another history");
  const made = await f.fromDirectory(path, { transfer });
  expect(transfer.have?.commits).toHaveLength(1);
  expect(git(made.path, "rev-parse", "HEAD")).toBe(git(path, "rev-parse", "HEAD"));
});

test("a detached HEAD stays detached", async () => {
  const f = fixture();
  const path = f.repository("project");
  git(path, "checkout", "-q", "--detach");
  const id = commit(path);
  const made = await f.fromDirectory(path);
  expect(made.branch).toBeUndefined();
  expect(git(made.path, "rev-parse", "HEAD")).toBe(id);
  expect(() => git(made.path, "symbolic-ref", "HEAD")).toThrow();
});

test("a repository without a commit arrives with what is staged", async () => {
  const f = fixture();
  const path = f.path("unborn");
  mkdirSync(path);
  git(path, "init", "-q", "-b", "trunk");
  write(join(path, "staged"), "1");
  git(path, "add", "staged");
  write(join(path, "staged"), "2");
  write(join(path, "loose"), "3");
  const made = await f.fromDirectory(path);
  expect(made.branch).toBe("trunk");
  expect(status(made.path)).toEqual(status(path));
  expect(git(made.path, "symbolic-ref", "HEAD")).toBe("refs/heads/trunk");
});

test("a folder inside the work tree brings the whole tree and becomes the root", async () => {
  const f = fixture();
  const path = f.repository("project", { "apps/web/index.html": "x", "lib/a": "y" });
  const made = await f.fromDirectory(join(path, "apps", "web"));
  expect(made.root).toBe("apps/web");
  expect(exists(made.path, "lib", "a")).toBe(true);
  const once = await f.fromDirectory(join(path, "apps/web"), {
    placement: { kind: "existing", relativeCwd: "apps/web" },
  });
  expect(once.root).toBe("apps/web");
});

test("a linked work tree brings its own HEAD, index and files", async () => {
  const f = fixture();
  const main = f.repository("project");
  const linked = f.path("linked");
  git(main, "worktree", "add", "-q", "-b", "side", linked);
  write(join(linked, "readme.txt"), "changed\n");
  git(linked, "add", "-A");
  write(join(linked, "extra"), "1");
  const made = await f.fromDirectory(linked);
  expect(made.branch).toBe("side");
  expect(status(made.path)).toEqual(status(linked));
  expect(lstatSync(join(made.path, ".git")).isDirectory()).toBe(true);
});

test("a conflict arrives as unstaged changes", async () => {
  const f = fixture();
  const path = f.repository("project", { "f.txt": "base\n", "other.txt": "1\n" });
  git(path, "checkout", "-q", "-b", "theirs");
  write(join(path, "f.txt"), "theirs\n");
  write(join(path, "added.txt"), "theirs\n");
  commit(path);
  git(path, "checkout", "-q", "main");
  write(join(path, "f.txt"), "ours\n");
  write(join(path, "added.txt"), "ours\n");
  commit(path);
  expect(() => git(path, "merge", "-q", "theirs")).toThrow();
  write(join(path, "other.txt"), "2\n");
  git(path, "add", "other.txt");
  const before = snapshot(path);
  const made = await f.fromDirectory(path);
  expect(snapshot(path)).toEqual(before);
  for (const file of ["f.txt", "added.txt"]) {
    expect(readFileSync(join(made.path, file), "utf8")).toContain("<<<<<<<");
    expect(readFileSync(join(made.path, file), "utf8")).toBe(readFileSync(join(path, file), "utf8"));
  }
  expect(status(made.path).map((line) => `${line.slice(2, 4)} ${line.split(" ").at(-1)}`)).toEqual([
    ".M added.txt",
    ".M f.txt",
    "M. other.txt",
    " ",
  ]);
  expect(f.progress.join()).toContain("Conflicted files");
});

test("sparse checkouts, submodules and repositories inside do not break it", async () => {
  const f = fixture();
  const library = f.repository("library", { "lib.c": "int x;" });
  const path = f.repository("project", { "a/keep": "1", "b/far": "2", "root.txt": "3" });
  git(path, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", library, "vendor/library");
  commit(path);
  git(path, "sparse-checkout", "set", "--cone", "--sparse-index", "a", "vendor");
  write(join(path, "a", "keep"), "changed");
  write(join(path, "b", "outside"), "an untracked file outside of the cone");
  git(f.path("project"), "init", "-q", "a/nested");
  write(join(path, "a", "nested", "x"), "1");
  const made = await f.fromDirectory(path);
  expect(status(made.path)).toEqual(status(path).filter((line) => !line.includes("nested")));
  expect(exists(made.path, "b", "far")).toBe(true);
  expect(readFileSync(join(made.path, "a", "keep"), "utf8")).toBe("changed");
  expect(git(made.path, "ls-files", "-s", "vendor/library")).toMatch(/^160000 /);
  expect(f.progress.join()).toMatch(
    /submodules are left behind.*,1 untracked repository left|1 untracked repository left.*submodules are left behind/,
  );
});

test("a shallow repository stays shallow and works", async () => {
  const f = fixture();
  const origin = f.repository("origin");
  commit(origin, "second");
  commit(origin, "third");
  const path = f.path("shallow");
  git(f.folder, "clone", "-q", "--depth", "1", `file://${origin}`, path);
  write(join(path, "readme.txt"), "changed\n");
  for (let round = 0; round < 2; round += 1) {
    const made = await f.fromDirectory(path);
    expect(git(made.path, "rev-parse", "--is-shallow-repository")).toBe("true");
    expect(git(made.path, "log", "--format=%s")).toBe("third");
    expect(status(made.path)).toEqual(status(path));
    expect(git(made.path, "fsck", "--no-dangling")).toBe("");
  }
});

test("a repository that borrows objects from another arrives whole", async () => {
  const f = fixture();
  const origin = f.repository("origin:with colon");
  const path = f.path("borrower");
  git(f.folder, "clone", "-q", "--shared", origin, path);
  write(join(path, "more"), "1");
  const made = await f.fromDirectory(path);
  expect(status(made.path)).toEqual(status(path));
  expect(exists(made.path, ".git", "objects", "info", "alternates")).toBe(false);
  renameSync(origin, f.path("moved"));
  expect(git(made.path, "fsck", "--no-dangling")).toBe("");
});

test("a SHA-256 repository keeps its object format", async () => {
  const f = fixture();
  const path = f.repository("modern", { a: "1" }, "--object-format=sha256");
  write(join(path, "a"), "2");
  for (let round = 0; round < 2; round += 1) {
    const made = await f.fromDirectory(path);
    expect(git(made.path, "rev-parse", "HEAD")).toBe(git(path, "rev-parse", "HEAD"));
    expect(status(made.path)).toEqual(status(path));
  }
});

test("a directory that changes its object format gets a new cache", async () => {
  const f = fixture();
  const path = f.repository("project");
  await f.fromDirectory(path);
  rmSync(join(path, ".git"), { recursive: true });
  git(path, "init", "-q", "-b", "main", "--object-format=sha256");
  commit(path);
  const made = await f.fromDirectory(path);
  expect(git(made.path, "rev-parse", "HEAD")).toBe(git(path, "rev-parse", "HEAD"));
});

test("line endings and filters work as for git add", async () => {
  const f = fixture();
  const path = f.repository("project", {
    ".gitattributes": "*.txt text eol=crlf\n*.sec filter=upper\n",
    "a.txt": "1\r\n",
  });
  git(path, "config", "filter.upper.clean", "tr a-z A-Z");
  write(join(path, "a.txt"), "1\r\n2\r\n");
  write(join(path, "x.sec"), "abc");
  const made = await f.fromDirectory(path);
  expect(readFileSync(join(made.path, "a.txt"), "utf8")).toBe("1\r\n2\r\n");
  expect(readFileSync(join(made.path, "x.sec"), "utf8")).toBe("ABC");
  expect(f.progress.join()).toContain("1 changed file filtered");
});

test("a file that has CRLF in the index keeps it under core.autocrlf, as for git add", async () => {
  const f = fixture();
  const path = f.repository("project", { "dos.txt": "1\r\n" });
  git(path, "config", "core.autocrlf", "input");
  write(join(path, "dos.txt"), "1\r\n2\r\n");
  write(join(path, "new.txt"), "1\r\n");
  const made = await f.fromDirectory(path);
  expect(readFileSync(join(made.path, "dos.txt"), "utf8")).toBe("1\r\n2\r\n");
  expect(readFileSync(join(made.path, "new.txt"), "utf8")).toBe("1\n");
});

test("a split index, an untracked cache and signs of a file monitor leave no trace in the source", async () => {
  const f = fixture();
  const path = f.repository("project", Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`f${i}`, String(i)])));
  git(path, "config", "core.untrackedCache", "true");
  git(path, "update-index", "--untracked-cache");
  git(path, "status");
  git(path, "update-index", "--split-index");
  git(path, "config", "core.splitIndex", "true");
  write(join(path, "f1"), "changed");
  write(join(path, "new"), "1");
  const names = () => readdirSync(join(path, ".git"), { recursive: true }).sort();
  const before = names();
  const made = await f.fromDirectory(path);
  expect(names()).toEqual(before);
  expect(status(made.path)).toEqual(status(path));
});

import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { openDirectorySource, readPaseoConfig, sourceKey } from "../../src/workspace/index.ts";
import { git, useFixture, write } from "./fixture.ts";

const fixture = useFixture();
afterEach(() => vi.unstubAllEnvs());

const open = (path: string, signal = new AbortController().signal) =>
  openDirectorySource(path, { kind: "existing" }, { commits: [] }, signal, () => {});

test("a source is named by what its path leads to", () => {
  const f = fixture();
  mkdirSync(f.path("real"));
  symlinkSync("real", f.path("link"));
  expect(sourceKey(f.path("link"))).toBe(sourceKey(f.path("real")));
  expect(sourceKey(f.path("real"))).toMatch(/^[0-9a-f]{64}$/);
  expect(sourceKey(f.path("missing"))).toBe(sourceKey(f.path("missing")));
  expect(sourceKey(f.path("missing"))).not.toBe(sourceKey(f.path("real")));
});

test("paseo.json is read when it is a file of a sensible size", async () => {
  const f = fixture();
  for (const name of ["none", "file", "folder", "pipe", "large"]) mkdirSync(f.path(name));
  write(f.path("file", "paseo.json"), '{"täglich":1}');
  mkdirSync(f.path("folder", "paseo.json"));
  execFileSync("mkfifo", [f.path("pipe", "paseo.json")]);
  write(f.path("large", "paseo.json"), Buffer.alloc(1024 * 1024 + 1));
  expect(await readPaseoConfig(f.path("file"))).toBe('{"täglich":1}');
  for (const name of ["none", "folder", "pipe"]) expect(await readPaseoConfig(f.path(name))).toBeUndefined();
  await expect(readPaseoConfig(f.path("large"))).rejects.toMatchObject({ code: "source-unsupported" });
  expect(await readPaseoConfig(f.path("no", "such"))).toBeUndefined();
});

test("without git a repository is an error and a plain directory is none", async () => {
  const f = fixture();
  const path = f.repository("project", { "sub/a": "1" });
  mkdirSync(f.path("plain"));
  vi.stubEnv("PATH", f.path("empty"));
  await expect(open(join(path, "sub"))).rejects.toMatchObject({ code: "git-missing" });
  const source = await open(f.path("plain"));
  expect(source.manifest).toEqual({ kind: "plain" });
  source.stream.destroy();
});

test("a repository that git cannot read is an error, a stray folder named .git is none", async () => {
  const f = fixture();
  const path = f.repository("broken");
  writeFileSync(join(path, ".git", "HEAD"), "nonsense");
  await expect(open(path)).rejects.toMatchObject({ code: "git-failed", message: expect.stringContaining(path) });
  mkdirSync(f.path("stray", ".git"), { recursive: true });
  const source = await open(f.path("stray"));
  expect(source.manifest.kind).toBe("plain");
  source.stream.destroy();
});

test("GIT_ variables of the caller do not redirect what is read", async () => {
  const f = fixture();
  const path = f.repository("project");
  const other = f.repository("other", { different: "1" });
  vi.stubEnv("GIT_DIR", join(other, ".git"));
  vi.stubEnv("GIT_WORK_TREE", other);
  vi.stubEnv("GIT_INDEX_FILE", join(other, ".git", "index"));
  vi.stubEnv("GIT_TRACE", "1");
  const source = await open(path);
  source.stream.destroy();
  vi.unstubAllEnvs();
  expect(source.manifest).toMatchObject({ refs: [{ name: "refs/heads/main", id: git(path, "rev-parse", "HEAD") }] });
});

test("refs whose objects are missing stay behind", async () => {
  const f = fixture();
  const path = f.repository("project");
  writeFileSync(join(path, ".git", "refs", "heads", "broken"), `${"1".repeat(40)}\n`);
  const made = await f.fromDirectory(path);
  expect(git(made.path, "branch", "--format=%(refname:short)")).toBe("main");
  expect(f.progress).toContain("1 ref left behind.");
});

test("a file that changes at every reading is named in the error", async () => {
  const f = fixture();
  const path = f.repository("project", { ".gitattributes": "busy filter=busy\n", busy: "1\n" });
  // A clean filter runs whenever git reads the file: this one makes each reading out of date.
  git(path, "config", "filter.busy.clean", "sh -c 'cat; echo x >>busy'");
  write(join(path, "busy"), "22\n");
  await expect(open(path)).rejects.toMatchObject({
    code: "source-unreadable",
    message: expect.stringContaining('"busy"'),
  });
});

test("an object that is missing in the source ends the stream with an error", async () => {
  const f = fixture();
  const path = f.repository("project", { a: "some content\n" });
  const blob = git(path, "rev-parse", "HEAD:a");
  rmSync(join(path, ".git", "objects", blob.slice(0, 2), blob.slice(2)));
  await expect(f.fromDirectory(path)).rejects.toMatchObject({
    code: "git-failed",
    message: expect.stringContaining(path),
  });
});

test("cancelling ends git and removes what was written, wherever it is", async () => {
  const f = fixture();
  const temporary = f.path("tmp");
  mkdirSync(temporary);
  const path = f.repository("project");
  write(join(path, "new"), "1");
  vi.stubEnv("TMPDIR", temporary);

  const whole = await open(path);
  for await (const _ of whole.stream);
  await vi.waitFor(() => expect(readdirSync(temporary)).toEqual([]));

  const unread = await open(path);
  expect(readdirSync(temporary)).toHaveLength(1);
  unread.stream.destroy();
  await vi.waitFor(() => expect(readdirSync(temporary)).toEqual([]));

  const controller = new AbortController();
  const cancelled = await open(path, controller.signal);
  const failure = new Promise((resolve) => cancelled.stream.once("error", resolve));
  controller.abort();
  expect(await failure).toMatchObject({ code: "cancelled" });
  await vi.waitFor(() => expect(readdirSync(temporary)).toEqual([]));

  await expect(open(path, AbortSignal.abort())).rejects.toMatchObject({ code: "cancelled" });
});

test("hooks of the repository and of the account do not run", async () => {
  const f = fixture();
  const path = f.repository("project");
  const hooks = f.path("hooks");
  for (const hook of [
    "post-checkout",
    "reference-transaction",
    "post-index-change",
    "pre-auto-gc",
    "fsmonitor-watchman",
  ]) {
    write(join(hooks, hook), `#!/bin/sh\ntouch ${f.path("ran")}\n`);
    chmodSync(join(hooks, hook), 0o755);
  }
  write(
    f.path("account.gitconfig"),
    `[core]\n\thooksPath = ${hooks}\n\tfsmonitor = ${join(hooks, "fsmonitor-watchman")}\n`,
  );
  vi.stubEnv("GIT_CONFIG_GLOBAL", f.path("account.gitconfig"));
  write(join(path, "new"), "1");
  rmSync(f.path("ran"), { force: true });
  await f.fromDirectory(path);
  await f.fromUrl({ url: path });
  expect(readdirSync(f.folder)).not.toContain("ran");
});

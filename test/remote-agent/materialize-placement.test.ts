import { chmodSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import type { MaterializeInput } from "../../remote-agent/materialize/index.ts";
import { type PlacementSource, planCheckout } from "../../remote-agent/materialize/placement.ts";
import { commit, exists, type Fixture, git, type Made, status, useFixture, write } from "../workspace/fixture.ts";

const fixture = useFixture();
afterEach(() => vi.unstubAllEnvs());

type Placement = MaterializeInput["placement"];

/** A remote, and a local clone of it whose main has gone its own way and which has a local branch and a dirty file. */
interface Project {
  remote: string;
  local: string;
  remoteMain: string;
  localMain: string;
  onlyRemote: string;
  feature: string;
  request: string;
}

function project(f: Fixture): Project {
  const remote = f.repository("remote", { "readme.txt": "first\n" });
  git(remote, "branch", "feature");
  const local = f.path("local");
  git(f.folder, "clone", "-q", remote, local);
  write(join(remote, "remote.txt"), "1");
  const remoteMain = commit(remote);
  git(local, "fetch", "-q", "origin");
  write(join(local, "local.txt"), "1");
  const localMain = commit(local);
  git(local, "checkout", "-q", "-b", "feature", "origin/feature");
  write(join(local, "feature.txt"), "1");
  const feature = commit(local);
  git(local, "checkout", "-q", "main");
  write(join(local, "readme.txt"), "dirty\n");
  git(remote, "checkout", "-q", "-b", "only/remote");
  write(join(remote, "only.txt"), "1");
  const onlyRemote = commit(remote);
  git(remote, "checkout", "-q", "--detach", "main");
  write(join(remote, "request.txt"), "1");
  const request = commit(remote);
  git(remote, "update-ref", "refs/pull/7/head", request);
  git(remote, "checkout", "-q", "main");
  return { remote, local, remoteMain, localMain, onlyRemote, feature, request };
}

function metadata(made: Made): string {
  return readFileSync(join(made.path, ".git", "paseo", "worktree.json"), "utf8");
}

const head = (made: Made) => git(made.path, "rev-parse", "HEAD");

function branchOff(branchName: string, baseRef: string, worktreeSlug?: string): Placement {
  return { kind: "branch", branchName, baseRef, ...(worktreeSlug === undefined ? {} : { worktreeSlug }) };
}

test("a new branch is cut from origin's base first, then from the local one, and from a clean checkout", async () => {
  const f = fixture();
  const p = project(f);
  git(p.local, "branch", "local-only", p.localMain);
  git(p.local, "tag", "v1", p.feature);
  const cases: [string, string, string][] = [
    ["main", p.remoteMain, "main"],
    ["origin/main", p.remoteMain, "main"],
    [" origin/main ", p.remoteMain, "main"],
    ["local-only", p.localMain, "local-only"],
    ["v1", p.feature, "v1"],
    [p.feature, p.feature, p.feature],
  ];
  for (const [baseRef, commitId, baseName] of cases) {
    const made = await f.fromDirectory(p.local, { placement: branchOff("new/thing", baseRef) });
    expect(made.branch).toBe("new/thing");
    expect(head(made)).toBe(commitId);
    expect(git(made.path, "status", "--porcelain=v2", "--branch").split("\n").slice(1)).toEqual([
      "# branch.head new/thing",
    ]);
    expect(metadata(made)).toBe(`{\n  "version": 1,\n  "baseRefName": "${baseName}"\n}\n`);
    expect(git(made.path, "remote")).toBe("");
  }
});

test("the same from a git URL, where every branch is origin's", async () => {
  const f = fixture();
  const p = project(f);
  const made = await f.fromUrl({ url: p.remote, revision: "feature" }, { placement: branchOff("new", "only/remote") });
  expect(head(made)).toBe(p.onlyRemote);
  expect(git(made.path, "branch", "--format=%(refname:short)")).toBe("new");
  expect(() => git(made.path, "rev-parse", "new@{upstream}")).toThrow();
  expect(git(made.path, "config", "remote.origin.url")).toBe(p.remote);
  const taken = await f.fromUrl({ url: p.remote }, { placement: branchOff("feature", "main", "my-slug") });
  expect(taken.branch).toBe("my-slug");
  expect(head(taken)).toBe(git(p.remote, "rev-parse", "feature"));
});

test("a branch name that exists means to go on from that branch, named after the slug", async () => {
  const f = fixture();
  const p = project(f);
  const made = await f.fromDirectory(p.local, { placement: branchOff("feature", "main", "my-slug") });
  expect(made.branch).toBe("my-slug");
  expect(head(made)).toBe(p.feature);
  expect(JSON.parse(metadata(made))).toEqual({ version: 1, baseRefName: "main" });
  const unnamed = await f.fromDirectory(p.local, { placement: branchOff("feature", "main"), workspaceId: "WKS_42/é!" });
  expect(unnamed.branch).toBe("wks-42");
  const odd = await f.fromDirectory(p.local, { placement: branchOff("feature", "main"), workspaceId: "☃" });
  expect(odd.branch).toBe("workspace");
});

test("a name that is taken gets a number", async () => {
  const f = fixture();
  const p = project(f);
  git(p.local, "branch", "slug");
  git(p.local, "branch", "slug-1");
  git(p.local, "branch", "group/inner");
  expect((await f.fromDirectory(p.local, { placement: branchOff("feature", "main", "slug") })).branch).toBe("slug-2");
  expect((await f.fromDirectory(p.local, { placement: branchOff("feature", "main", "feature") })).branch).toBe(
    "feature-1",
  );
  expect((await f.fromDirectory(p.local, { placement: branchOff("group", "main") })).branch).toBe("group-1");
  await expect(f.fromDirectory(p.local, { placement: branchOff("slug/inner", "main") })).rejects.toMatchObject({
    code: "branch-name-invalid",
  });
});

test("a branch for an agent to name is marked as a placeholder", async () => {
  const f = fixture();
  const p = project(f);
  const source = { kind: "branch-off" as const, baseBranch: "origin/main", branchName: "brave-otter" };
  const placement: Placement = { kind: "resolved-worktree", source, worktreeSlug: "brave-otter" };
  const made = await f.fromDirectory(p.local, { placement, markFirstAgentBranchAutoName: true });
  const expected = {
    version: 2,
    baseRefName: "main",
    firstAgentBranchAutoName: { status: "pending", placeholderBranchName: "brave-otter" },
  };
  expect(metadata(made)).toBe(`${JSON.stringify(expected, null, 2)}\n`);
  const existing = await f.fromDirectory(p.local, { markFirstAgentBranchAutoName: true });
  expect(exists(existing.path, ".git", "paseo")).toBe(false);
});

test("bases and branch names that cannot be are refused by name", async () => {
  const f = fixture();
  const p = project(f);
  const made = f.fromDirectory(p.local, { placement: branchOff("new", "nope") });
  await expect(made).rejects.toMatchObject({ code: "branch-unknown", message: expect.stringContaining('"nope"') });
  const source: PlacementSource = {
    hasOrigin: false,
    branch: (name) => (name === "main" ? p.localMain : undefined),
    localBranches: () => ["main"],
    originBranch: () => undefined,
    fetchedBranch: () => undefined,
    revision: async () => undefined,
    existing: async () => ({ commit: undefined, branch: undefined }),
    changeRequest: async () => undefined,
  };
  const plan = (placement: Placement) =>
    planCheckout({
      placement,
      source,
      workspaceId: "w",
      markFirstAgentBranchAutoName: false,
      signal: new AbortController().signal,
    });
  for (const base of ["HEAD", "", "origin/", "origin/HEAD", "-x", "a\nb"]) {
    const message = expect.stringContaining(JSON.stringify(base));
    await expect(plan(branchOff("new", base))).rejects.toMatchObject({ code: "branch-unknown", message });
  }
  for (const name of ["-x", "a b", "a..b", "HEAD", "@{-1}", "", "a.lock", "a\nb", "a\0b", "refs//x"]) {
    await expect(plan(branchOff(name, "main"))).rejects.toMatchObject({ code: "branch-name-invalid" });
    await expect(plan({ kind: "checkout", ref: name })).rejects.toMatchObject({ code: "branch-name-invalid" });
  }
  await expect(plan(branchOff("main", "main", "bad slug"))).rejects.toMatchObject({ code: "branch-name-invalid" });
});

test("checkout takes the local branch, else origin's as it is now", async () => {
  const f = fixture();
  const p = project(f);
  const local = await f.fromDirectory(p.local, { placement: { kind: "checkout", ref: "feature" } });
  expect(local.branch).toBe("feature");
  expect(head(local)).toBe(p.feature);
  expect(git(local.path, "status", "--porcelain")).toBe("");
  expect(JSON.parse(metadata(local))).toEqual({ version: 1, baseRefName: "feature" });

  const before = git(p.local, "for-each-ref");
  const source = { kind: "checkout-branch" as const, branchName: "only/remote" };
  const fetched = await f.fromDirectory(p.local, {
    placement: { kind: "resolved-worktree", source, worktreeSlug: "s" },
  });
  expect(fetched.branch).toBe("only/remote");
  expect(head(fetched)).toBe(p.onlyRemote);
  expect(git(p.local, "for-each-ref")).toBe(before);
  expect(exists(p.local, ".git", "FETCH_HEAD")).toBe(true);
  expect(() => git(p.local, "cat-file", "-e", p.onlyRemote)).toThrow();

  const fromUrl = await f.fromUrl({ url: p.remote }, { placement: { kind: "checkout", ref: "only/remote" } });
  expect(head(fromUrl)).toBe(p.onlyRemote);
  expect(git(fromUrl.path, "rev-parse", "--abbrev-ref", "@{upstream}")).toBe("origin/only/remote");

  for (const ref of ["nope", "v1"]) {
    await expect(f.fromDirectory(p.local, { placement: { kind: "checkout", ref } })).rejects.toMatchObject({
      code: "branch-unknown",
      message: expect.stringContaining(ref),
    });
    await expect(f.fromUrl({ url: p.remote }, { placement: { kind: "checkout", ref } })).rejects.toMatchObject({
      code: "branch-unknown",
    });
  }
  await expect(f.fromDirectory(p.local, { placement: { kind: "checkout", ref: "--all" } })).rejects.toMatchObject({
    code: "branch-unknown",
  });
});

test("a checkout of origin's branch works offline from what was fetched last", async () => {
  const f = fixture();
  const p = project(f);
  git(p.local, "fetch", "-q", "origin");
  git(p.local, "remote", "set-url", "origin", f.path("gone"));
  const made = await f.fromDirectory(p.local, { placement: { kind: "checkout", ref: "only/remote" } });
  expect(head(made)).toBe(p.onlyRemote);
});

const REQUEST = { headRef: "fix/it", baseRefName: "origin/main" };

test("a change request of GitHub is found by its number, from both kinds of source", async () => {
  const f = fixture();
  const p = project(f);
  const placement: Placement = {
    kind: "resolved-worktree",
    worktreeSlug: "s",
    source: { kind: "checkout-github-pr", githubPrNumber: 7, ...REQUEST },
  };
  const before = git(p.local, "for-each-ref");
  for (const made of [
    await f.fromDirectory(p.local, { placement }),
    await f.fromUrl({ url: p.remote }, { placement }),
  ]) {
    expect(made.branch).toBe("fix/it");
    expect(head(made)).toBe(p.request);
    expect(git(made.path, "status", "--porcelain")).toBe("");
    expect(JSON.parse(metadata(made))).toEqual({ version: 1, baseRefName: "main" });
  }
  expect(git(p.local, "for-each-ref")).toBe(before);
  expect(() => git(p.local, "cat-file", "-e", p.request)).toThrow();
});

test("a change request comes from the first of its refs that exists, on a branch with a free name", async () => {
  const f = fixture();
  const p = project(f);
  git(p.local, "remote", "add", "upstream", p.remote);
  git(p.local, "remote", "set-url", "origin", f.path("gone"));
  const checkoutRefs = [
    { remoteRef: "refs/merge-requests/7/head" },
    { remoteName: "nowhere", remoteRef: "refs/pull/7/head" },
    { remoteName: "--upload-pack=x", remoteRef: "refs/pull/7/head" },
    { remoteName: "upstream", remoteRef: "refs/pull/8/head" },
    { remoteName: "upstream", remoteRef: "refs/pull/7/head" },
  ];
  const source = {
    kind: "checkout-change-request" as const,
    changeRequestNumber: 7,
    localBranchName: "feature",
    checkoutRefs,
    ...REQUEST,
  };
  const made = await f.fromDirectory(p.local, { placement: { kind: "resolved-worktree", worktreeSlug: "s", source } });
  expect(made.branch).toBe("feature-1");
  expect(head(made)).toBe(p.request);
  const short = {
    ...source,
    checkoutRefs: [{ remoteRef: "pull/9/head" }, { remoteName: "other", remoteRef: "x" }, { remoteRef: "pull/7/head" }],
  };
  const fromUrl = await f.fromUrl(
    { url: p.remote },
    { placement: { kind: "resolved-worktree", worktreeSlug: "s", source: short } },
  );
  expect(fromUrl.branch).toBe("feature");
  expect(head(fromUrl)).toBe(p.request);
});

test("a change request can be pushed to where it came from, and the URL's credentials stay out", async () => {
  const f = fixture();
  const p = project(f);
  const fork = f.path("fork.git");
  git(f.folder, "clone", "-q", "--bare", p.remote, fork);
  const source = {
    kind: "checkout-change-request" as const,
    changeRequestNumber: 7,
    localBranchName: "someone/fix/it",
    pushRemoteUrl: fork,
    ...REQUEST,
  };
  const placement: Placement = { kind: "resolved-worktree", worktreeSlug: "s", source };
  for (const made of [
    await f.fromDirectory(p.local, { placement }),
    await f.fromUrl({ url: p.remote }, { placement }),
  ]) {
    expect(git(made.path, "rev-parse", "--abbrev-ref", "@{upstream}")).toBe("paseo-pr-7/fix/it");
    expect(git(made.path, "status", "--porcelain=v2", "--branch")).toContain("# branch.ab +0 -0");
    write(join(made.path, "more"), String(made.path));
    const id = commit(made.path);
    git(made.path, "push", "-q");
    expect(git(fork, "rev-parse", "refs/heads/fix/it")).toBe(id);
    git(fork, "update-ref", "-d", "refs/heads/fix/it");
  }
  const secret = { ...source, pushRemoteUrl: "https://user:s3cret-word@example.test/fork.git" };
  const made = await f.fromDirectory(p.local, {
    placement: { kind: "resolved-worktree", worktreeSlug: "s", source: secret },
  });
  expect(git(made.path, "config", "remote.paseo-pr-7.url")).toBe("https://example.test/fork.git");
  expect(readFileSync(join(made.path, ".git", "config"), "utf8")).not.toContain("s3cret-word");
  const forbidden = { ...source, pushRemoteUrl: "ext::sh -c x" };
  await expect(
    f.fromUrl({ url: p.remote }, { placement: { kind: "resolved-worktree", worktreeSlug: "s", source: forbidden } }),
  ).rejects.toMatchObject({
    code: "source-unsupported",
  });
});

test("a change request of the same repository tracks origin's branch", async () => {
  const f = fixture();
  const p = project(f);
  git(p.remote, "branch", "fix/it", p.request);
  const source = { kind: "checkout-github-pr" as const, githubPrNumber: 7, trackOriginHead: true, ...REQUEST };
  const placement: Placement = { kind: "resolved-worktree", worktreeSlug: "s", source };
  const made = await f.fromUrl({ url: p.remote }, { placement });
  expect(made.branch).toBe("fix/it");
  expect(git(made.path, "rev-parse", "--abbrev-ref", "@{upstream}")).toBe("origin/fix/it");
  const local = await f.fromDirectory(p.local, { placement });
  expect(git(local.path, "remote")).toBe("");
});

test("a change request that cannot be had is named with what was tried", async () => {
  const f = fixture();
  const p = project(f);
  const place = (source: object) =>
    ({ kind: "resolved-worktree", worktreeSlug: "s", source: { ...REQUEST, ...source } }) as Placement;
  const missing = place({ kind: "checkout-github-pr", githubPrNumber: 8 });
  const unavailable = {
    code: "change-request-unavailable",
    message: expect.stringContaining("origin refs/pull/8/head"),
  };
  await expect(f.fromDirectory(p.local, { placement: missing })).rejects.toMatchObject(unavailable);
  await expect(f.fromUrl({ url: p.remote }, { placement: missing })).rejects.toMatchObject(unavailable);
  for (const source of [
    { kind: "checkout-change-request" },
    { kind: "checkout-change-request", changeRequestNumber: 1.5 },
    { kind: "checkout-change-request", changeRequestNumber: 7, checkoutRefs: [] },
    {
      kind: "checkout-change-request",
      changeRequestNumber: 7,
      checkoutRefs: [{ remoteRef: "+refs/pull/7/head:refs/heads/main" }],
    },
  ]) {
    await expect(f.fromDirectory(p.local, { placement: place(source) })).rejects.toMatchObject({
      code: "change-request-unavailable",
    });
    await expect(f.fromUrl({ url: p.remote }, { placement: place(source) })).rejects.toMatchObject({
      code: "change-request-unavailable",
    });
  }
});

test("paseo.json is put into a workspace root that has none", async () => {
  const f = fixture();
  const p = project(f);
  write(join(p.remote, "apps", "paseo.json"), "own");
  commit(p.remote);
  const seeded = await f.fromUrl({ url: p.remote }, { paseoConfig: "{}\n" });
  expect(status(seeded.path)).toEqual(["? paseo.json", ""]);
  expect(readFileSync(join(seeded.path, "paseo.json"), "utf8")).toBe("{}\n");
  const own = await f.fromUrl({ url: p.remote, subdirectory: "apps" }, { paseoConfig: "{}\n" });
  expect(status(own.path)).toEqual([""]);
});

test("ssh may not ask, unless the account has its own ssh command", async () => {
  const f = fixture();
  const p = project(f);
  const ssh = f.path("bin", "ssh");
  write(
    ssh,
    `#!/bin/sh\necho "$@" >>${f.path("ssh-arguments")}\nwhile [ "$1" != host.test ]; do shift; done\nshift\nexec sh -c "$*"\n`,
  );
  chmodSync(ssh, 0o755);
  vi.stubEnv("PATH", `${f.path("bin")}:${process.env.PATH}`);
  const made = await f.fromUrl({ url: `host.test:${p.remote}` });
  expect(head(made)).toBe(p.remoteMain);
  expect(readFileSync(f.path("ssh-arguments"), "utf8")).toContain("-oBatchMode=yes");
  write(f.path("account.gitconfig"), `[core]\n\tsshCommand = ssh -oOwn=yes\n`);
  vi.stubEnv("GIT_CONFIG_GLOBAL", f.path("account.gitconfig"));
  write(f.path("ssh-arguments"), "");
  await f.fromUrl({ url: `ssh://host.test${p.remote}` });
  expect(readFileSync(f.path("ssh-arguments"), "utf8")).toContain("-oOwn=yes");
  expect(readFileSync(f.path("ssh-arguments"), "utf8")).not.toContain("BatchMode");
});

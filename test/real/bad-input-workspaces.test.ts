import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { BuildHost, execFailureCode, failureCode } from "../support/build-host.ts";
import { describeReal } from "../support/requirements.ts";
import type { RuntimeClient } from "../support/runtime.ts";
import { commit, git, write } from "../workspace/fixture.ts";

/** Sources that cannot be had, and operations on workspaces that are not there, not ready or not ours. */
describeReal("bad workspaces", () => {
  let host: BuildHost;
  let client: RuntimeClient;
  let stranger: RuntimeClient;
  let url: string;
  let plain: string;
  let odd: string;

  beforeAll(async () => {
    host = await BuildHost.start();
    client = host.client();
    stranger = client.with({ runtimeInstanceId: "another installation" });
    const repository = host.path("repository");
    write(join(repository, "folder", "file"), "x\n");
    symlinkSync("/etc", join(repository, "out"));
    git(repository, "init", "-q", "-b", "main");
    commit(repository);
    url = `file://${repository}`;
    plain = host.path("plain");
    mkdirSync(plain);
    writeFileSync(host.path("a-file"), "");
    odd = host.path("odd");
    mkdirSync(odd);
    writeFileSync(join(odd, "a large file"), Buffer.alloc(8 * 1024 * 1024));
    writeFileSync(Buffer.concat([Buffer.from(`${odd}/`), Buffer.from([0xff])]), "");
    await client.create("ready", { kind: "git", url, revision: "" });
    await client.create("paused", { kind: "git", url, revision: "" });
    await client.ok(["pause", "--workspace-id", "paused"]);
  });
  afterAll(() => host?.stop());

  const gitSource = (changes: object = {}) => ({ kind: "git", url, revision: "", ...changes });
  const directory = (path: string) => ({ kind: "directory", path });
  const existing = (changes: object = {}) => ({ kind: "existing", ...changes });
  const branchOff = (baseBranch: string, branchName: string) => ({
    kind: "resolved-worktree",
    worktreeSlug: "slug",
    source: { kind: "branch-off", baseBranch, branchName },
  });
  const rows: [what: string, source: () => object, placement: object, code: string][] = [
    ["a URL that is none", () => gitSource({ url: "some words" }), existing(), "source-unsupported"],
    ["a URL that runs a command", () => gitSource({ url: "ext::sh -c id" }), existing(), "source-unsupported"],
    ["a URL that looks like an option", () => gitSource({ url: "--upload-pack=id" }), existing(), "source-unsupported"],
    [
      "a repository that is not there",
      () => gitSource({ url: "file:///nowhere" }),
      existing(),
      "git-source-unreachable",
    ],
    [
      "a folder that is no repository",
      () => gitSource({ url: `file://${plain}` }),
      existing(),
      "git-source-unreachable",
    ],
    ["an unknown revision", () => gitSource({ revision: "v9" }), existing(), "revision-unknown"],
    ["an unknown commit", () => gitSource({ revision: "0".repeat(39).concat("1") }), existing(), "revision-unknown"],
    ["a revision that looks like an option", () => gitSource({ revision: "--all" }), existing(), "revision-unknown"],
    ["a missing subdirectory", () => gitSource({ subdirectory: "nowhere" }), existing(), "subdirectory-missing"],
    [
      "a subdirectory that is a file",
      () => gitSource({ subdirectory: "folder/file" }),
      existing(),
      "subdirectory-missing",
    ],
    ["a subdirectory above", () => gitSource({ subdirectory: "../.." }), existing(), "cwd-outside-workspace"],
    ["a subdirectory that leads out", () => gitSource({ subdirectory: "out" }), existing(), "cwd-outside-workspace"],
    ["an absolute cwd", () => gitSource(), existing({ relativeCwd: "/etc" }), "cwd-outside-workspace"],
    ["a cwd above", () => gitSource(), existing({ relativeCwd: "folder/../.." }), "cwd-outside-workspace"],
    ["a cwd that leads out", () => gitSource(), existing({ relativeCwd: "out" }), "cwd-outside-workspace"],
    ["a missing cwd", () => gitSource(), existing({ relativeCwd: "nowhere" }), "subdirectory-missing"],
    ["an unknown base branch", () => gitSource(), branchOff("nowhere", "new"), "branch-unknown"],
    ["HEAD as a base branch", () => gitSource(), branchOff("HEAD", "new"), "branch-unknown"],
    ["an invalid branch name", () => gitSource(), branchOff("main", "a..b"), "branch-name-invalid"],
    ["a branch name like an option", () => gitSource(), branchOff("main", "-f"), "branch-name-invalid"],
    ["an unknown branch", () => gitSource(), { kind: "checkout", ref: "nowhere" }, "branch-unknown"],
    [
      "a change request that is not there",
      () => gitSource(),
      {
        kind: "resolved-worktree",
        worktreeSlug: "slug",
        source: { kind: "checkout-github-pr", githubPrNumber: 1, headRef: "fix", baseRefName: "main" },
      },
      "change-request-unavailable",
    ],
    ["a missing local directory", () => directory(host.path("nowhere")), existing(), "source-missing"],
    ["a local file", () => directory(host.path("a-file")), existing(), "source-missing"],
    ["a local file name that is no text", () => directory(odd), existing(), "source-unreadable"],
    ["a relative local path", () => directory("plain"), existing(), "source-missing"],
    ["branches of a plain directory", () => directory(plain), branchOff("main", "new"), "source-unsupported"],
  ];

  it.each(rows)("does not create from %s", async (_what, source, placement, code) => {
    const before = host.listing();
    const input = client.createInput("bad", source(), placement);
    expect(failureCode(await client.operation(["create", "--workspace-id", "bad"], input))).toBe(code);
    expect(host.listing()).toEqual(before);
  });

  type State = "missing" | "paused" | "foreign";
  const operations: [operation: string, state: State, code: string][] = [
    ["pause", "missing", "workspace-missing"],
    ["resume", "missing", "workspace-missing"],
    ["signal", "missing", "workspace-missing"],
    ["exec", "missing", "workspace-missing"],
    ["exec", "paused", "workspace-paused"],
    ["create", "foreign", "workspace-owned-elsewhere"],
    ["inspect", "foreign", "workspace-owned-elsewhere"],
    ["pause", "foreign", "workspace-owned-elsewhere"],
    ["resume", "foreign", "workspace-owned-elsewhere"],
    ["destroy", "foreign", "workspace-owned-elsewhere"],
    ["signal", "foreign", "workspace-owned-elsewhere"],
    ["exec", "foreign", "workspace-owned-elsewhere"],
    ["reconcile", "foreign", "workspace-owned-elsewhere"],
  ];

  const records = () =>
    ["ready", "paused"].map((id) => readFileSync(join(host.workspaceFolder(id), "workspace.json"), "utf8"));

  it.each(operations)("does not %s a workspace that is %s", async (operation, state, code) => {
    const caller = state === "foreign" ? stranger : client;
    const id = { missing: "nowhere", paused: "paused", foreign: "ready" }[state];
    const before = host.listing();
    const recordsBefore = records();
    if (operation === "exec") {
      expect(execFailureCode(await caller.execute(id, ["touch", "made"]))).toBe(code);
    } else {
      const flags = operation === "signal" ? ["--exec-id", "e", "--signal", "SIGTERM"] : [];
      const args = operation === "reconcile" ? [operation] : [operation, "--workspace-id", id, ...flags];
      const extra = {
        ...(operation === "reconcile" ? { workspaceIds: [id] } : {}),
        ...(operation === "create" ? client.createInput(id, gitSource()) : {}),
      };
      expect(failureCode(await caller.operation(args, extra))).toBe(code);
    }
    expect(host.listing()).toEqual(before);
    expect(records()).toEqual(recordsBefore);
  });

  it("destroys what is not there without complaint, for a failed create is followed by it", async () => {
    expect(await client.ok(["destroy", "--workspace-id", "nowhere"])).toEqual({ type: "ok", protocolVersion: 1 });
  });
});

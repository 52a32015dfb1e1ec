import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { BuildHost, outputOf } from "../support/build-host.ts";
import { describeReal } from "../support/requirements.ts";
import type { RuntimeClient } from "../support/runtime.ts";
import { publishUpstream, type Upstream } from "../support/upstream.ts";
import { write } from "../workspace/fixture.ts";

/** Each kind of placement once from end to end; test/remote-agent has the details. */
describeReal("placements", () => {
  let host: BuildHost;
  let client: RuntimeClient;
  let url: string;
  let commits: Upstream["commits"];
  beforeAll(async () => {
    host = await BuildHost.start();
    client = host.client();
    ({ url, commits } = publishUpstream(host));
  });
  afterAll(() => host?.stop());

  const inWorkspace = (id: string, ...argv: string[]) => outputOf(client, id, argv);

  const pullRequest = { headRef: "feature", baseRefName: "main", localBranchName: "review" };
  it.each([
    {
      name: "branch",
      placement: { kind: "branch", branchName: "work", baseRef: "origin/main" },
      branch: "work",
      head: "main",
    },
    { name: "checkout", placement: { kind: "checkout", ref: "feature" }, branch: "feature", head: "feature" },
    {
      name: "branch-off with a name that exists",
      placement: {
        kind: "resolved-worktree",
        worktreeSlug: "slug",
        source: { kind: "branch-off", baseBranch: "main", branchName: "feature" },
      },
      branch: "slug",
      head: "feature",
    },
    {
      name: "checkout-branch",
      placement: {
        kind: "resolved-worktree",
        worktreeSlug: "slug",
        source: { kind: "checkout-branch", branchName: "feature" },
      },
      branch: "feature",
      head: "feature",
    },
    {
      name: "checkout-github-pr",
      placement: {
        kind: "resolved-worktree",
        worktreeSlug: "slug",
        source: { kind: "checkout-github-pr", githubPrNumber: 7, ...pullRequest },
      },
      branch: "review",
      head: "feature",
    },
    {
      name: "checkout-change-request",
      placement: {
        kind: "resolved-worktree",
        worktreeSlug: "slug",
        source: {
          kind: "checkout-change-request",
          checkoutRefs: [{ remoteRef: "refs/none/1/head" }, { remoteRef: "refs/merge-requests/3/head" }],
          ...pullRequest,
        },
      },
      branch: "review",
      head: "first",
    },
  ] as const)("places $name", async ({ placement, branch, head }) => {
    const id = host.newName();
    const { state } = await client.create(id, { kind: "git", url, revision: "" }, placement);
    expect(state.lifecycleEnvironment.PASEO_BRANCH_NAME).toBe(branch);
    expect(await inWorkspace(id, "git", "rev-parse", "HEAD", "--abbrev-ref", "HEAD")).toBe(
      `${commits[head]}\n${branch}`,
    );
    const base = placement.kind === "checkout" || branch === "feature" ? "feature" : "main";
    expect(JSON.parse(await inWorkspace(id, "cat", ".git/paseo/worktree.json"))).toEqual({
      version: 1,
      baseRefName: base,
    });
  });

  it("seeds paseo.json and marks a branch that Paseo may rename", async () => {
    const seed = host.path("seed");
    write(join(seed, "paseo.json"), '{"worktree":{}}\n');
    const placement = { kind: "branch", branchName: "placeholder", baseRef: "main" };
    const extra = { seedPaseoConfigFrom: seed, markFirstAgentBranchAutoName: true, purpose: "discovery" };
    await client.create("seeded", { kind: "git", url, revision: "" }, placement, extra);
    expect(await inWorkspace("seeded", "cat", "paseo.json")).toBe('{"worktree":{}}');
    expect(JSON.parse(await inWorkspace("seeded", "cat", ".git/paseo/worktree.json"))).toMatchObject({
      version: 2,
      firstAgentBranchAutoName: { status: "pending", placeholderBranchName: "placeholder" },
    });
  });
});

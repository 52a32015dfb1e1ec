import type { CommandRuntimePlacementIntent } from "../../src/contract/index.ts";
import { changeRequestNumber, changeRequestRefs, type RemoteRef } from "../../src/wire/change-request-refs.ts";
import { RuntimeError } from "../../src/wire/errors.ts";
import { runGit } from "../../src/wire/git-process.ts";
import type { GitSourceManifest } from "../../src/wire/source.ts";
import { parseGitUrl } from "./git-url.ts";

/** What a workspace is to have checked out. */
export interface Checkout {
  /** Absent on an unborn branch. */
  commit: string | undefined;
  /** Absent for a detached HEAD. */
  branch: string | undefined;
  upstream?: { remote: string; branch: string };
  pushRemote?: { name: string; url: string; branch: string };
  /** For Paseo's metadata: the branch that this one is compared with. */
  baseRefName?: string;
  /** A branch that Paseo may rename once an agent knows what it is for. */
  isPlaceholder?: boolean;
  /** Uncommitted state to reproduce. */
  state?: NonNullable<GitSourceManifest["state"]>;
}

/** What a placement asks of a source. */
export interface PlacementSource {
  /** Commit of a branch that the source has: a local one of a directory, one at the remote of a git URL. */
  branch(name: string): string | undefined;
  /** Names of the local branches that a workspace of this source starts with. */
  localBranches(): string[];
  /** Commit of origin's branch. */
  originBranch(name: string): string | undefined;
  /** Commit of a tag, a full ref name or an id. */
  revision(text: string): Promise<string | undefined>;
  /** Commit of a branch that has to be checked out although the source has it only at its origin. */
  fetchedBranch(name: string): string | undefined;
  existing(): Promise<Checkout>;
  /** Commit of the first of these refs that can be had. */
  changeRequest(refs: RemoteRef[]): Promise<string | undefined>;
  /** Whether workspaces of this source have a remote `origin`. */
  readonly hasOrigin: boolean;
}

interface PlacementContext {
  placement: CommandRuntimePlacementIntent;
  /** Names a branch where the placement has no slug of its own. */
  workspaceId: string;
  markFirstAgentBranchAutoName: boolean;
  source: PlacementSource;
  signal: AbortSignal;
}

/**
 * Decides what a placement means for a source, as Paseo's own worktrees would.
 * @throws RuntimeError branch-unknown, branch-name-invalid, change-request-unavailable
 */
export async function planCheckout(context: PlacementContext): Promise<Checkout> {
  const { placement } = context;
  switch (placement.kind) {
    case "existing":
      return context.source.existing();
    case "branch":
      return branchOff(context, placement.baseRef, placement.branchName, placement.worktreeSlug);
    case "checkout":
      return checkoutBranch(context, placement.ref);
    case "resolved-worktree":
      switch (placement.source.kind) {
        case "branch-off":
          return branchOff(context, placement.source.baseBranch, placement.source.branchName, placement.worktreeSlug);
        case "checkout-branch":
          return checkoutBranch(context, placement.source.branchName);
        case "checkout-change-request":
        case "checkout-github-pr":
          return checkoutChangeRequest(context, placement.source);
      }
  }
}

/** A branch name that exists already means: continue from that branch, under the name of the slug. */
async function branchOff(
  context: PlacementContext,
  base: string,
  branchName: string,
  slug: string | undefined,
): Promise<Checkout> {
  const { source, signal } = context;
  await requireBranchName(branchName, signal);
  const baseRefName = normalizedBase(base);
  const baseCommit =
    source.originBranch(baseRefName) ?? source.branch(baseRefName) ?? (await source.revision(baseRefName));
  if (baseCommit === undefined) throw unknownBranch(base, "base branch");
  const existing = source.branch(branchName);
  const candidate = existing === undefined ? branchName : (slug ?? slugOf(context.workspaceId));
  if (candidate !== branchName) await requireBranchName(candidate, signal);
  const taken = source.localBranches();
  const branch = uniqueName(candidate, (name) => taken.includes(name) || source.branch(name) !== undefined, taken);
  return {
    commit: existing ?? baseCommit,
    branch,
    baseRefName,
    isPlaceholder: context.markFirstAgentBranchAutoName,
  };
}

async function checkoutBranch({ source, signal }: PlacementContext, branch: string): Promise<Checkout> {
  await requireBranchName(branch, signal);
  const commit = source.branch(branch) ?? source.fetchedBranch(branch);
  if (commit === undefined) throw unknownBranch(branch, "branch");
  const upstream = source.hasOrigin ? { upstream: { remote: "origin", branch } } : {};
  return { commit, branch, baseRefName: branch, ...upstream };
}

type ResolvedSource = Extract<CommandRuntimePlacementIntent, { kind: "resolved-worktree" }>["source"];
type ChangeRequest = Extract<ResolvedSource, { headRef: string }>;

async function checkoutChangeRequest({ source, signal }: PlacementContext, request: ChangeRequest): Promise<Checkout> {
  const candidate = request.localBranchName ?? request.headRef;
  await requireBranchName(candidate, signal);
  await requireBranchName(request.headRef, signal);
  const baseRefName = normalizedBase(request.baseRefName);
  const taken = source.localBranches();
  const branch = uniqueName(candidate, (name) => taken.includes(name), taken);
  const refs = changeRequestRefs(request);
  const commit = await source.changeRequest(refs);
  if (commit === undefined) {
    const tried = refs.map(({ remote, ref }) => `${remote} ${ref}`).join(", ") || "no ref";
    throw new RuntimeError(
      "change-request-unavailable",
      `The change request of ${request.headRef} could not be fetched (tried ${tried})`,
    );
  }
  const checkout: Checkout = { commit, branch, baseRefName };
  if (request.pushRemoteUrl !== undefined) {
    const name = ["paseo-pr", changeRequestNumber(request)].filter((part) => part !== undefined).join("-");
    checkout.pushRemote = { name, url: parseGitUrl(request.pushRemoteUrl).url, branch: request.headRef };
    checkout.upstream = { remote: name, branch: request.headRef };
  }
  if (request.trackOriginHead && source.hasOrigin) checkout.upstream = { remote: "origin", branch: request.headRef };
  return checkout;
}

/** A base `origin/X` counts as `X`. */
function normalizedBase(base: string): string {
  const name = base.trim().replace(/^origin\//, "");
  if (name === "" || name === "HEAD" || name.startsWith("-") || /[\x00-\x1f\x7f]/.test(name))
    throw unknownBranch(base, "base branch");
  return name;
}

function unknownBranch(name: string, what: string): RuntimeError {
  return new RuntimeError("branch-unknown", `The source has no ${what} ${JSON.stringify(name)}`);
}

/** @throws RuntimeError branch-name-invalid unless git accepts it as it is (git would expand `@{-1}`) */
async function requireBranchName(name: string, signal: AbortSignal): Promise<void> {
  if (!name.startsWith("-") && !name.includes("\0")) {
    const result = await runGit(["check-ref-format", "--branch", name], { cwd: "/", signal });
    if (result.exitCode === 0 && result.stdout.toString("utf8") === `${name}\n`) return;
  }
  throw new RuntimeError("branch-name-invalid", `${JSON.stringify(name)} is not a valid name for a git branch`);
}

/** The name itself, or with -1, -2, … at its end. git stores branches as files: `a` and `a/b` exclude each other. */
function uniqueName(candidate: string, isTaken: (name: string) => boolean, taken: string[]): string {
  const above = taken.find((name) => candidate.startsWith(`${name}/`));
  if (above !== undefined) {
    throw new RuntimeError("branch-name-invalid", `A branch ${candidate} cannot exist beside the branch ${above}`);
  }
  const blocked = (name: string) => isTaken(name) || taken.some((other) => other.startsWith(`${name}/`));
  let name = candidate;
  for (let suffix = 1; blocked(name); suffix += 1) name = `${candidate}-${suffix}`;
  return name;
}

export function slugOf(text: string): string {
  const slug = text
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .slice(0, 50)
    .replace(/^-+|-+$/g, "");
  return slug || "workspace";
}

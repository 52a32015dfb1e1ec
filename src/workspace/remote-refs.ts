import type { CommandRuntimePlacementIntent } from "../contract/index.ts";
import { changeRequestRefs, fullRefNames, isFetchableRef, type RemoteRef } from "../wire/change-request-refs.ts";
import { RuntimeError } from "../wire/errors.ts";
import { networkEnvironment } from "../wire/git-network.ts";
import { type GitEnd, type GitOptions, gitReason, runGit } from "../wire/git-process.ts";
import { type GitSourceManifest, MAX_FETCHED_REFS } from "../wire/source.ts";
import type { SourceRefs } from "./refs.ts";
import type { Scratch } from "./scratch.ts";
import type { WorkTree } from "./work-tree.ts";

type FetchedRefs = GitSourceManifest["fetched"];

/** git ls-remote --exit-code, when the remote has no such ref. */
const NO_SUCH_REF = 2;

/**
 * Fetches what a placement names and the local repository does not have, from the repository's own remotes, into the
 * scratch folder: the host has no access to these remotes, and no ref of the repository changes.
 *
 * @throws RuntimeError branch-unknown or change-request-unavailable, naming what is missing
 */
export async function fetchForPlacement(
  tree: WorkTree,
  scratch: Scratch,
  placement: CommandRuntimePlacementIntent,
  local: SourceRefs,
  signal: AbortSignal,
  progress: (text: string) => void,
): Promise<FetchedRefs> {
  const options = { cwd: tree.top, signal };
  const fetch = async (wanted: RemoteRef) => {
    const env = { ...scratch.env, ...(await networkEnvironment(options)) };
    return fetchRef({ ...options, env }, wanted, progress);
  };
  const branch = checkedOutBranch(placement);
  if (branch !== undefined) return fetchBranch(branch, local, fetch);
  if (placement.kind !== "resolved-worktree") return [];
  const { source } = placement;
  if (source.kind !== "checkout-change-request" && source.kind !== "checkout-github-pr") return [];
  const wanted = changeRequestRefs(source).slice(0, MAX_FETCHED_REFS);
  let reason = "";
  for (const ref of wanted) {
    const outcome = await fetch(ref);
    if ("id" in outcome) return [{ ...ref, id: outcome.id }];
    reason = `: ${outcome.reason}`;
  }
  const tried = wanted.map(({ remote, ref }) => `${remote} ${ref}`).join(", ") || "no ref";
  throw new RuntimeError(
    "change-request-unavailable",
    `The change request of ${source.headRef} could not be fetched for ${tree.top} (tried ${tried})${reason}`,
    "Check that the remote is reachable from this machine and has the change request",
  );
}

function checkedOutBranch(placement: CommandRuntimePlacementIntent): string | undefined {
  if (placement.kind === "checkout") return placement.ref;
  if (placement.kind === "resolved-worktree" && placement.source.kind === "checkout-branch")
    return placement.source.branchName;
  return undefined;
}

/** The local branch needs no fetch; otherwise origin's, and its last known state when origin cannot be reached. */
async function fetchBranch(
  branch: string,
  local: SourceRefs,
  fetch: (wanted: RemoteRef) => Promise<FetchOutcome>,
): Promise<FetchedRefs> {
  const ref = `refs/heads/${branch}`;
  if (local.refs.some((known) => known.name === ref) || local.symbolicRefs.some((known) => known.name === ref))
    return [];
  const outcome: FetchOutcome = isFetchableRef(branch)
    ? await fetch({ remote: "origin", ref })
    : { reason: "not a branch name", absent: true };
  if ("id" in outcome) return [{ remote: "origin", ref, id: outcome.id }];
  const tracked = outcome.absent
    ? undefined
    : local.refs.find((known) => known.name === `refs/remotes/origin/${branch}`);
  if (tracked) return [{ remote: "origin", ref, id: tracked.id }];
  throw new RuntimeError(
    "branch-unknown",
    `The branch ${branch} is neither in the local repository nor at its origin (${outcome.reason})`,
  );
}

type FetchOutcome = { id: string } | { reason: string; absent: boolean };

async function fetchRef(
  options: GitOptions,
  wanted: RemoteRef,
  progress: (text: string) => void,
): Promise<FetchOutcome> {
  const { remote, ref } = wanted;
  const known = await runGit(["remote", "get-url", remote], options);
  if (known.exitCode !== 0) return { reason: `there is no remote ${remote}`, absent: false };
  progress(`Fetching ${ref} from ${remote}…`);
  const listing = await runGit(["ls-remote", "--exit-code", remote, ref], options);
  if (listing.exitCode === NO_SUCH_REF) return { reason: `${remote} has no ${ref}`, absent: true };
  if (listing.exitCode !== 0) return failed(listing);
  const id = idInListing(listing.stdout.toString("utf8"), ref);
  if (id === undefined) return { reason: `${remote} has no ${ref}`, absent: true };
  const fetched = await runGit(
    [
      // One pack: unpacking single objects would freshen those that the repository has already.
      "-c",
      "fetch.unpackLimit=1",
      "fetch",
      "--quiet",
      "--no-tags",
      "--no-prune",
      "--no-write-fetch-head",
      "--no-recurse-submodules",
      "--refmap=",
      remote,
      ref,
    ],
    options,
  );
  if (fetched.exitCode !== 0) return failed(fetched);
  const commit = await runGit(["rev-parse", "--verify", "--quiet", `${id}^{commit}`], options);
  if (commit.exitCode !== 0) return { reason: `${ref} moved while it was fetched`, absent: false };
  return { id: commit.stdout.toString("utf8").trim() };
}

function failed(result: GitEnd): FetchOutcome {
  return { reason: gitReason(result), absent: false };
}

function idInListing(listing: string, ref: string): string | undefined {
  const ids = new Map(
    listing
      .split("\n")
      .map((line) => line.split("\t"))
      .map(([id = "", name = ""]) => [name, id]),
  );
  return fullRefNames(ref).flatMap((name) => ids.get(name) ?? [])[0];
}

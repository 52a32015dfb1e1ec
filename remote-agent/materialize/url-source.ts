import { fullRefNames, isFetchableRef, type RemoteRef } from "../../src/wire/change-request-refs.ts";
import { RuntimeError } from "../../src/wire/errors.ts";
import { git } from "../../src/wire/git-process.ts";
import { cachePath, discardIfDamaged, tidyCache, whileBusy } from "./cache-folder.ts";
import { applyCheckout } from "./checkout.ts";
import { type GitUrl, parseGitUrl } from "./git-url.ts";
import { withLock } from "./lock.ts";
import type { Made } from "./made.ts";
import { Mirror, NO_BRANCH } from "./mirror.ts";
import { type Checkout, type PlacementSource, planCheckout } from "./placement.ts";
import { listRemote, type RemoteListing } from "./remote-listing.ts";
import { removeTree } from "./remove-tree.ts";
import { Repository } from "./repository.ts";
import type { MaterializeInput } from "./types.ts";

type UrlSource = Extract<MaterializeInput["source"], { kind: "git" }>;

/** Materialises a git URL: its mirror in the cache is brought up to date and cloned with hard links. */
export async function materializeUrl(input: MaterializeInput, source: UrlSource): Promise<Made> {
  const parsed = parseGitUrl(source.url);
  requireHarmless(source.revision, parsed);
  input.progress(`Asking ${parsed.url}…`);
  // Asked outside of the lock: creates that come at the same time ask at the same time, and one of them fetches.
  const listing = await listRemote(parsed, { cwd: input.cacheRoot, signal: input.signal });
  const mirror = new Mirror(cachePath(input.cacheRoot, "url", parsed.url), parsed.url, listing, input.signal);
  for (let attempt = 1; ; attempt += 1) {
    try {
      const checkout = await withLock(mirror.path, input.signal, () => cloneMirror(input, source, mirror, listing));
      await applyCheckout(
        new Repository(`${input.contentPath}/.git`, input.contentPath, input.signal),
        checkout,
        input.progress,
      );
      return { kind: "git", branch: checkout.branch, subdirectory: source.subdirectory };
    } catch (error) {
      if (attempt > 1 || !mayBeDamage(error) || !(await discardIfDamaged(mirror.repository))) throw error;
      input.progress("The cache on the host was damaged; starting anew…");
      await removeTree(input.contentPath);
    }
  }
}

/** The remote has answered by now, so these may well come from a mirror that was left in the middle of something. */
function mayBeDamage(error: unknown): boolean {
  return error instanceof RuntimeError && ["git-failed", "git-source-unreachable"].includes(error.code);
}

async function cloneMirror(
  input: MaterializeInput,
  source: UrlSource,
  mirror: Mirror,
  listing: RemoteListing,
): Promise<Checkout> {
  await mirror.ensure(input.cacheRoot);
  return whileBusy(mirror.path, async () => {
    await mirror.refresh(input.progress);
    const checkout = await planCheckout({
      placement: input.placement,
      workspaceId: input.workspaceId,
      markFirstAgentBranchAutoName: input.markFirstAgentBranchAutoName ?? false,
      source: new MirroredSource(mirror, listing, source.revision),
      signal: input.signal,
    });
    // --local copies the whole object folder by hard links, so what was fetched beyond branches and tags is in it too.
    await git(
      ["clone", "--quiet", "--local", "--no-checkout", "--origin", "origin", "--", mirror.path, input.contentPath],
      {
        cwd: input.cacheRoot,
        signal: input.signal,
        doing: `clone the mirror of ${mirror.url}`,
      },
    );
    await pointAtRemote(input, mirror.url, listing);
    await tidyCache(mirror.repository);
    return checkout;
  });
}

async function pointAtRemote(input: MaterializeInput, url: string, listing: RemoteListing): Promise<void> {
  const workspace = new Repository(`${input.contentPath}/.git`, input.contentPath, input.signal);
  await workspace.configure({ "remote.origin.url": url });
  // What git notes about the branch that is not there; older versions note nothing.
  await workspace.run(["config", "--remove-section", `branch.${NO_BRANCH}`]);
  const { defaultBranch } = listing;
  if (defaultBranch === undefined || !listing.refs.has(`refs/heads/${defaultBranch}`)) return;
  await workspace.git("set origin/HEAD", [
    "symbolic-ref",
    "refs/remotes/origin/HEAD",
    `refs/remotes/origin/${defaultBranch}`,
  ]);
}

function requireHarmless(revision: string, source: GitUrl): void {
  if (revision.startsWith("-") || /[\x00-\x1f\x7f]/.test(revision)) throw unknownRevision(revision, source.url);
}

function unknownRevision(revision: string, url: string): RuntimeError {
  return revision === ""
    ? new RuntimeError("revision-unknown", `The git source ${url} has no default branch`, "Name the revision")
    : new RuntimeError("revision-unknown", `The git source ${url} has no revision ${JSON.stringify(revision)}`);
}

/** A git URL as placements see it: every branch is one of the remote's, and the workspace starts without local ones. */
class MirroredSource implements PlacementSource {
  readonly hasOrigin = true;
  readonly #mirror: Mirror;
  readonly #listing: RemoteListing;
  readonly #wanted: string;

  constructor(mirror: Mirror, listing: RemoteListing, wanted: string) {
    this.#mirror = mirror;
    this.#listing = listing;
    this.#wanted = wanted;
  }

  branch(name: string): string | undefined {
    return this.#listing.refs.get(`refs/heads/${name}`);
  }

  localBranches(): string[] {
    return [];
  }

  originBranch(name: string): string | undefined {
    return this.branch(name);
  }

  fetchedBranch(): undefined {
    return undefined;
  }

  async revision(text: string): Promise<string | undefined> {
    if (!isFetchableRef(text)) return undefined;
    const tag = this.#listing.refs.get(`refs/tags/${text}`);
    if (tag !== undefined) return this.#mirror.repository.idOf(`${tag}^{commit}`);
    if (this.#listing.refs.has(text)) return this.#mirror.fetchCommit(text);
    if (!/^[0-9a-f]{4,64}$/i.test(text)) return undefined;
    const id = text.toLowerCase();
    const present = await this.#mirror.repository.idOf(`${id}^{commit}`);
    if (present !== undefined || (id.length !== 40 && id.length !== 64)) return present;
    return this.#mirror.fetchCommit(id);
  }

  /** The revision decides: a branch is checked out and tracks its origin, anything else is a detached HEAD. */
  async existing(): Promise<Checkout> {
    const { defaultBranch, head, refs } = this.#listing;
    const wanted = this.#wanted;
    if (wanted === "") {
      if (defaultBranch !== undefined && this.branch(defaultBranch) !== undefined) return this.#tracking(defaultBranch);
      if (defaultBranch === undefined && head !== undefined)
        return this.#detached(await this.#mirror.fetchCommit("HEAD"));
      if (refs.size === 0) return this.#unborn();
      throw unknownRevision(wanted, this.#mirror.url);
    }
    const branch = wanted.replace(/^refs\/heads\//, "");
    if (this.branch(wanted) !== undefined) return this.#tracking(wanted);
    if (branch !== wanted && this.branch(branch) !== undefined) return this.#tracking(branch);
    return this.#detached(await this.revision(wanted));
  }

  /** An empty repository does not tell the name of its branch to be, so the account's choice or the usual one has to do. */
  async #unborn(): Promise<Checkout> {
    const configured = await this.#mirror.repository.run(["config", "--get", "init.defaultBranch"]);
    const branch = configured.stdout.toString("utf8").trim() || "main";
    return { commit: undefined, branch, upstream: { remote: "origin", branch } };
  }

  #tracking(branch: string): Checkout {
    return { commit: this.branch(branch), branch, upstream: { remote: "origin", branch } };
  }

  #detached(commit: string | undefined): Checkout {
    if (commit === undefined) throw unknownRevision(this.#wanted, this.#mirror.url);
    return { commit, branch: undefined };
  }

  /** A fresh clone knows no remote but its origin. */
  async changeRequest(refs: RemoteRef[]): Promise<string | undefined> {
    for (const { remote, ref } of refs) {
      if (remote !== "origin") continue;
      const listed = fullRefNames(ref).find((name) => this.#listing.refs.has(name));
      const commit = await this.#mirror.fetchCommit(listed ?? ref);
      if (commit !== undefined) return commit;
    }
    return undefined;
  }
}

import { mkdir, writeFile } from "node:fs/promises";
import type { Readable } from "node:stream";
import type { RemoteRef } from "../../src/wire/change-request-refs.ts";
import { RuntimeError } from "../../src/wire/errors.ts";
import { git } from "../../src/wire/git-process.ts";
import type { GitSourceManifest } from "../../src/wire/source.ts";
import { cachePath, discardIfDamaged, tidyCache } from "./cache-folder.ts";
import { applyCheckout } from "./checkout.ts";
import { extractArchive } from "./extract.ts";
import { withLock } from "./lock.ts";
import type { Made } from "./made.ts";
import { indexPack, ObjectCache, writeRefs } from "./object-cache.ts";
import { type Checkout, type PlacementSource, planCheckout } from "./placement.ts";
import { Repository } from "./repository.ts";
import type { MaterializeInput } from "./types.ts";

/** Materialises what the wrapper sends of a local directory. No remote is configured: the host cannot reach the laptop. */
export async function materializeDirectory(input: MaterializeInput): Promise<Made> {
  const { source, supply, cacheRoot, signal } = input;
  if (source.kind !== "directory" || !supply)
    throw new RuntimeError("internal", "A directory source came without its supply");
  const cache = new ObjectCache(cachePath(cacheRoot, "directory", source.key), signal);
  let stream: Readable | undefined;
  try {
    // One at a time per directory: the second of two workspaces then needs only what the first has not brought.
    const received = await withLock(cache.path, signal, async () => {
      const supplied = await supply(await cache.have());
      stream = supplied.stream;
      // Whoever reads the stream notices its failure; one that comes when nobody reads must not end the agent.
      stream.on("error", () => {});
      const { manifest } = supplied;
      if (manifest.kind === "git" && !manifest.selfContained) await throughCache(input, cache, manifest, stream);
      return { manifest, stream };
    });
    const { manifest } = received;
    if (manifest.kind === "plain") return await extractPlain(input, received.stream);
    if (manifest.selfContained) await direct(input, manifest, received.stream);
    return await checkOut(input, manifest);
  } catch (error) {
    const isGits = error instanceof RuntimeError && error.code === "git-failed";
    if (!isGits || !(await discardIfDamaged(cache.repository))) throw error;
    // Not tried anew here: the pack was made for what this cache claimed to have.
    throw new RuntimeError(
      "git-failed",
      "The host's cache of this directory was damaged and has been removed",
      "Run the same command again; it sends everything anew",
      { cause: error },
    );
  } finally {
    stream?.destroy();
  }
}

async function extractPlain(input: MaterializeInput, stream: Readable): Promise<Made> {
  if (input.placement.kind !== "existing") {
    throw new RuntimeError(
      "source-unsupported",
      "The source directory is not in a git work tree, so it has no branches to place",
    );
  }
  input.progress("Extracting the directory…");
  await extractArchive(stream, input.contentPath, input.signal);
  return { kind: "plain", branch: undefined, subdirectory: undefined };
}

async function throughCache(
  input: MaterializeInput,
  cache: ObjectCache,
  manifest: GitSourceManifest,
  stream: Readable,
): Promise<void> {
  await cache.receive(manifest, stream, input.cacheRoot, input.progress);
  const { contentPath, signal } = input;
  await git(["clone", "--quiet", "--mirror", "--local", "--", cache.path, `${contentPath}/.git`], {
    cwd: input.cacheRoot,
    signal,
    doing: "clone the host's cache of the directory",
  });
  await tidyCache(cache.repository);
  const workspace = new Repository(`${contentPath}/.git`, contentPath, signal);
  // Not `git remote remove`, which would take the remote-tracking branches of the source with it.
  await workspace.git("forget the cache", ["config", "--remove-section", "remote.origin"]);
  await workspace.configure({ "core.bare": "false" });
}

/** Without the cache: a shallow history would make it incomplete. */
async function direct(input: MaterializeInput, manifest: GitSourceManifest, stream: Readable): Promise<void> {
  const { contentPath, signal } = input;
  const format = manifest.objectFormat === "sha1" ? [] : [`--object-format=${manifest.objectFormat}`];
  await mkdir(contentPath);
  await git(["init", "--quiet", ...format, contentPath], {
    cwd: input.cacheRoot,
    signal,
    doing: "make a repository on the host",
  });
  if (manifest.shallow.length > 0) {
    await writeFile(`${contentPath}/.git/shallow`, manifest.shallow.map((id) => `${id}\n`).join(""));
  }
  const workspace = new Repository(`${contentPath}/.git`, contentPath, signal);
  await indexPack(workspace, stream);
  await writeRefs(workspace, new Map(), manifest);
}

async function checkOut(input: MaterializeInput, manifest: GitSourceManifest): Promise<Made> {
  const workspace = new Repository(`${input.contentPath}/.git`, input.contentPath, input.signal);
  const commands = manifest.symbolicRefs.map(({ name, target }) => ["symbolic-ref", name, target]);
  for (const command of commands) await workspace.git("write the refs", command);
  const checkout = await planCheckout({
    placement: input.placement,
    workspaceId: input.workspaceId,
    markFirstAgentBranchAutoName: input.markFirstAgentBranchAutoName ?? false,
    source: new SentSource(workspace, manifest),
    signal: input.signal,
  });
  await applyCheckout(workspace, checkout, input.progress);
  return { kind: "git", branch: checkout.branch, subdirectory: manifest.subdirectory };
}

/** A local repository as placements see it: its own branches, and origin's as it last saw them. */
class SentSource implements PlacementSource {
  readonly hasOrigin = false;
  readonly #workspace: Repository;
  readonly #manifest: GitSourceManifest;
  readonly #refs: Map<string, string>;

  constructor(workspace: Repository, manifest: GitSourceManifest) {
    this.#workspace = workspace;
    this.#manifest = manifest;
    this.#refs = new Map(manifest.refs.map(({ name, id }) => [name, id]));
    for (const { name, target } of manifest.symbolicRefs) {
      const id = this.#refs.get(target);
      if (id !== undefined) this.#refs.set(name, id);
    }
  }

  branch(name: string): string | undefined {
    return this.#refs.get(`refs/heads/${name}`);
  }

  localBranches(): string[] {
    return [...this.#refs.keys()]
      .filter((name) => name.startsWith("refs/heads/"))
      .map((name) => name.slice("refs/heads/".length));
  }

  originBranch(name: string): string | undefined {
    return this.#refs.get(`refs/remotes/origin/${name}`);
  }

  async revision(text: string): Promise<string | undefined> {
    for (const name of [`refs/tags/${text}`, text, `refs/remotes/${text}`]) {
      const id = this.#refs.get(name);
      if (id !== undefined) return this.#workspace.idOf(`${id}^{commit}`);
    }
    return /^[0-9a-f]{4,64}$/i.test(text) ? this.#workspace.idOf(`${text}^{commit}`) : undefined;
  }

  fetchedBranch(name: string): string | undefined {
    return this.#fetched({ remote: "origin", ref: `refs/heads/${name}` });
  }

  async changeRequest(refs: RemoteRef[]): Promise<string | undefined> {
    return refs.flatMap((ref) => this.#fetched(ref) ?? [])[0];
  }

  #fetched({ remote, ref }: RemoteRef): string | undefined {
    return this.#manifest.fetched.find((entry) => entry.remote === remote && entry.ref === ref)?.id;
  }

  async existing(): Promise<Checkout> {
    const { head, state } = this.#manifest;
    const uncommitted = state ? { state } : {};
    if (head.kind === "detached") return { commit: head.id, branch: undefined, ...uncommitted };
    const branch = head.ref.slice("refs/heads/".length);
    return { commit: this.branch(branch), branch, ...uncommitted };
  }
}

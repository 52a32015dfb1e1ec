import { git } from "../../src/wire/git-process.ts";
import { cacheExists, discardCache } from "./cache-folder.ts";
import { type RemoteListing, unreachable } from "./remote-listing.ts";
import { Repository } from "./repository.ts";

/** Branches and tags, one to one; what the remote has deleted goes from the mirror too. */
const MIRRORED = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"];

/** A branch that never exists: as HEAD of a cache it keeps clones from making a branch of their own accord. */
export const NO_BRANCH = "paseo/none";

/**
 * The bare mirror of one git URL, from which workspaces are cloned with hard links. All methods that write expect the
 * caller to hold the mirror's lock.
 */
export class Mirror {
  readonly path: string;
  readonly url: string;
  readonly #listing: RemoteListing;
  readonly #repository: Repository;

  constructor(path: string, url: string, listing: RemoteListing, signal: AbortSignal) {
    this.path = path;
    this.url = url;
    this.#listing = listing;
    this.#repository = new Repository(path, undefined, signal);
  }

  get repository(): Repository {
    return this.#repository;
  }

  /** Makes the mirror if there is none, or none that can hold this remote's objects. */
  async ensure(cacheRoot: string): Promise<void> {
    const objectFormat = [...this.#listing.refs.values()].some((id) => id.length === 64) ? "sha256" : "sha1";
    if (await cacheExists(this.path)) {
      if ((await this.#repository.objectFormat()) === objectFormat) return;
      await discardCache(this.path);
    }
    await initBare(this.path, objectFormat, cacheRoot, this.#repository.signal);
  }

  /** Brings branches and tags to what the listing says; without a difference the remote is not asked again. */
  async refresh(progress: (text: string) => void): Promise<void> {
    const wanted = new Map([...this.#listing.refs].filter(([name]) => /^refs\/(?:heads|tags)\//.test(name)));
    const present = await this.#repository.refs("refs/heads", "refs/tags");
    if (present.size === wanted.size && [...wanted].every(([name, id]) => present.get(name) === id)) return;
    progress(`Fetching ${this.url}…`);
    const result = await this.#fetch(["--prune", ...MIRRORED]);
    if (result.exitCode !== 0) throw unreachable(this.url, this.#listing.access.reason(result));
  }

  /**
   * Fetches one ref, HEAD or one commit beyond branches and tags.
   * @returns the commit, or undefined when the remote does not give it
   */
  async fetchCommit(refOrId: string): Promise<string | undefined> {
    const known = (refOrId === "HEAD" ? this.#listing.head : this.#listing.refs.get(refOrId)) ?? refOrId;
    const present = /^[0-9a-f]{40,64}$/.test(known) ? await this.#repository.idOf(`${known}^{commit}`) : undefined;
    if (present !== undefined) return present;
    const result = await this.#fetch([refOrId]);
    return result.exitCode === 0 ? this.#repository.idOf("FETCH_HEAD^{commit}") : undefined;
  }

  #fetch(args: string[]) {
    const { config, env, secretInput } = this.#listing.access;
    const [options, refspecs] = [
      args.filter((arg) => arg.startsWith("--")),
      args.filter((arg) => !arg.startsWith("--")),
    ];
    return this.#repository.run(
      [
        ...config,
        "fetch",
        "--quiet",
        "--no-tags",
        "--update-shallow",
        "--no-recurse-submodules",
        ...options,
        "--",
        this.url,
        ...refspecs,
      ],
      { env, secretInput },
    );
  }
}

export async function initBare(path: string, objectFormat: string, cwd: string, signal: AbortSignal): Promise<void> {
  // No template: hooks of the account have no business in a cache.
  const format = objectFormat === "sha1" ? [] : [`--object-format=${objectFormat}`];
  await git(["init", "--quiet", "--bare", "--template=", ...format, path], {
    cwd,
    signal,
    doing: "make a cache on the host",
  });
  const repository = new Repository(path, undefined, signal);
  await repository.git("make a cache on the host", ["symbolic-ref", "HEAD", `refs/heads/${NO_BRANCH}`]);
}

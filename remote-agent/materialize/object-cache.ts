import type { Readable } from "node:stream";
import { gitFailure } from "../../src/wire/git-process.ts";
import type { GitSourceManifest } from "../../src/wire/source.ts";
import { MAX_HAVE_COMMITS, type SourceHave } from "../../src/wire/source-have.ts";
import { cacheExists, discardCache, whileBusy } from "./cache-folder.ts";
import { initBare } from "./mirror.ts";
import { Repository } from "./repository.ts";

/**
 * The bare cache of one local directory of the wrapper's machine: the objects and refs that it had last time, so that
 * the next workspace gets only what is new. The caller holds its lock.
 */
export class ObjectCache {
  readonly path: string;
  readonly repository: Repository;

  constructor(path: string, signal: AbortSignal) {
    this.path = path;
    this.repository = new Repository(path, undefined, signal);
  }

  /** Commits that this cache has with their whole history. A cache that cannot say so is thrown away. */
  async have(): Promise<SourceHave> {
    if (!(await cacheExists(this.path))) return { commits: [] };
    const format = "%(if)%(*objectname)%(then)%(*objectname)%(else)%(objectname)%(end)";
    const tips = await this.repository.run([
      "for-each-ref",
      `--count=${MAX_HAVE_COMMITS}`,
      "--sort=-creatordate",
      `--format=${format}`,
    ]);
    if (tips.exitCode !== 0) {
      await discardCache(this.path);
      return { commits: [] };
    }
    const commits = new Set(
      tips.stdout
        .toString("utf8")
        .split("\n")
        .filter((line) => line !== ""),
    );
    return { commits: [...commits] };
  }

  /**
   * Takes in what the wrapper sent and brings the refs to what its manifest says.
   * @throws RuntimeError git-failed when the pack is damaged or does not fit to what is here; the refs are as before
   */
  async receive(
    manifest: GitSourceManifest,
    pack: Readable,
    cacheRoot: string,
    progress: (text: string) => void,
  ): Promise<void> {
    await this.#ensure(manifest.objectFormat, cacheRoot);
    await whileBusy(this.path, async () => {
      const present = await this.repository.refs();
      await indexPack(this.repository, pack);
      // Only a cache that had something could have promised too much.
      if (present.size > 0) await this.#requireWhole(manifest);
      progress("Updating the cache on the host…");
      await writeRefs(this.repository, present, manifest);
    });
  }

  async #ensure(objectFormat: string, cacheRoot: string): Promise<void> {
    if (await cacheExists(this.path)) {
      if ((await this.repository.objectFormat()) === objectFormat) return;
      // The directory has become another repository, which knows none of the commits here.
      await discardCache(this.path);
    }
    await initBare(this.path, objectFormat, cacheRoot, this.repository.signal);
  }

  async #requireWhole(manifest: GitSourceManifest): Promise<void> {
    await this.repository.git(
      "find everything that the sent objects refer to",
      ["rev-list", "--objects", "--quiet", "--stdin", "--not", "--all"],
      {
        input: tipsOf(manifest)
          .map((id) => `${id}\n`)
          .join(""),
      },
    );
  }
}

/** Everything in the pack that the workspace will refer to. */
function tipsOf(manifest: GitSourceManifest): string[] {
  const { refs, fetched, head, state } = manifest;
  return [
    ...refs.map((ref) => ref.id),
    ...fetched.map((ref) => ref.id),
    ...(head.kind === "detached" ? [head.id] : []),
    ...(state ? [state.index, state.workTree] : []),
  ];
}

/** Stores one pack, checked byte by byte, and completed by the objects that its deltas refer to. */
export async function indexPack(repository: Repository, pack: Readable): Promise<void> {
  const result = await repository.run(["index-pack", "--stdin", "--fix-thin"], { input: pack });
  if (result.exitCode !== 0) throw gitFailure("store the objects that the wrapper sent", result);
}

/** Sets the refs of a repository to those of the manifest. */
export async function writeRefs(
  repository: Repository,
  present: Map<string, string>,
  manifest: GitSourceManifest,
): Promise<void> {
  const wanted = new Map(manifest.refs.map(({ name, id }) => [name, id]));
  const stale = [...present.keys()].filter((name) => !wanted.has(name));
  const changed = [...wanted].filter(([name, id]) => present.get(name) !== id);
  // First the removals: a branch `a` has to be gone before `a/b` can be.
  await updateRefs(
    repository,
    stale.map((name) => `delete ${name}\0\0`),
  );
  await updateRefs(
    repository,
    changed.map(([name, id]) => `update ${name}\0${id}\0\0`),
  );
  if (changed.length > 100) await repository.git("pack the refs", ["pack-refs", "--all", "--prune"]);
}

async function updateRefs(repository: Repository, commands: string[]): Promise<void> {
  if (commands.length === 0) return;
  // Thousands of small files are not worth a disk flush each; what a crash loses here is fetched again.
  await repository.git("write the refs", ["-c", "core.fsync=none", "update-ref", "--stdin", "-z"], {
    input: commands.join(""),
  });
}

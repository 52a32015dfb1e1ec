import { stat } from "node:fs/promises";
import type { Readable } from "node:stream";
import type { CommandRuntimePlacementIntent } from "../contract/index.ts";
import { RuntimeError } from "../wire/errors.ts";
import { cancellation, git } from "../wire/git-process.ts";
import type { GitSourceManifest, SourceManifest } from "../wire/source.ts";
import type { SourceHave } from "../wire/source-have.ts";
import { archiveStream } from "./archive.ts";
import { count } from "./count.ts";
import { packStream } from "./pack.ts";
import { readRefs, type SourceRefs } from "./refs.ts";
import { fetchForPlacement } from "./remote-refs.ts";
import { Scratch } from "./scratch.ts";
import { captureUncommitted } from "./uncommitted.ts";
import { findWorkTree, type WorkTree } from "./work-tree.ts";

export interface DirectorySource {
  manifest: SourceManifest;
  /** What the manifest announces: one pack, or one tar archive. Has to be read to its end or destroyed. */
  stream: Readable;
}

/**
 * Reads a local directory for a workspace. A git work tree travels whole, as objects, also when the path names a
 * folder inside it; any other directory travels as it is and can only be placed as `existing`.
 *
 * @param path absolute path of the directory
 * @param have what the host's cache of this source has
 * @param signal ends everything, the stream included
 * @param progress gets short sentences for a person
 * @throws RuntimeError source-missing, source-unsupported, source-unreadable, git-missing, git-failed, branch-unknown,
 *   change-request-unavailable or cancelled; the stream fails with the same class
 */
export async function openDirectorySource(
  path: string,
  placement: CommandRuntimePlacementIntent,
  have: SourceHave,
  signal: AbortSignal,
  progress: (text: string) => void,
): Promise<DirectorySource> {
  await requireDirectory(path);
  const tree = await findWorkTree(path, signal);
  if (tree) return openWorkTree(tree, placement, have, signal, progress);
  if (signal.aborted) throw cancellation(signal);
  if (placement.kind !== "existing") {
    throw new RuntimeError(
      "source-unsupported",
      `${path} is not in a git work tree, so it has no branches to place`,
      "Use the directory as it is, or make it a git repository first",
    );
  }
  return { manifest: { kind: "plain" }, stream: archiveStream(path, signal, progress) };
}

async function requireDirectory(path: string): Promise<void> {
  const stats = await stat(path).catch(() => undefined);
  if (!stats?.isDirectory()) {
    throw new RuntimeError(
      "source-missing",
      `${path} ${stats ? "is not a directory" : "does not exist"} on this machine`,
    );
  }
}

async function openWorkTree(
  tree: WorkTree,
  placement: CommandRuntimePlacementIntent,
  have: SourceHave,
  signal: AbortSignal,
  progress: (text: string) => void,
): Promise<DirectorySource> {
  const refs = await readRefs(tree, have.commits, signal);
  if (refs.dropped > 0) progress(`${count(refs.dropped, "ref")} left behind.`);
  const scratch = new Scratch(tree);
  try {
    const fetched = await fetchForPlacement(tree, scratch, placement, refs, signal, progress);
    const state = placement.kind === "existing" ? await captureUncommitted(tree, scratch, signal, progress) : undefined;
    const manifest = describe(tree, refs, fetched, state);
    const wanted = new Set([
      ...manifest.refs.map((ref) => ref.id),
      ...fetched.map((ref) => ref.id),
      ...(refs.headCommit ? [refs.headCommit] : []),
      ...(state ? [state.index, state.workTree] : []),
    ]);
    const had = manifest.selfContained ? [] : [...refs.known, ...(await treeOfKnownHead(tree, refs, signal))];
    return { manifest, stream: packStream(tree, scratch, { wanted, had }, signal, progress, () => scratch.remove()) };
  } catch (error) {
    scratch.remove();
    throw error;
  }
}

/**
 * HEAD's tree, when the host has HEAD. Git leaves out what a commit at the edge of the wanted history contains; without
 * any commit to send there is no edge, and it would send every unchanged file of the work tree again.
 */
async function treeOfKnownHead(tree: WorkTree, refs: SourceRefs, signal: AbortSignal): Promise<string[]> {
  if (refs.headCommit === undefined || refs.known.length === 0) return [];
  const unknown = await git(["rev-list", "--max-count=1", "--stdin"], {
    cwd: tree.top,
    signal,
    doing: `compare ${tree.top} with the host`,
    input: [refs.headCommit, ...refs.known.map((id) => `^${id}`)].map((line) => `${line}\n`).join(""),
  });
  return unknown === "" ? [`${refs.headCommit}^{tree}`] : [];
}

function describe(
  tree: WorkTree,
  { refs, symbolicRefs, head }: SourceRefs,
  fetched: GitSourceManifest["fetched"],
  state: GitSourceManifest["state"],
): GitSourceManifest {
  return {
    kind: "git",
    objectFormat: tree.objectFormat,
    refs,
    symbolicRefs,
    head,
    shallow: tree.shallow,
    // A cache of a shallow history would be incomplete, and one without refs would remember nothing.
    selfContained: tree.shallow.length > 0 || refs.length === 0,
    ...(state ? { state } : {}),
    fetched,
    subdirectory: tree.subdirectory,
  };
}

import { cancellation } from "../../src/wire/git-process.ts";
import { failureOf } from "../failure.ts";
import { captureBaseline } from "./baseline.ts";
import { ensureCacheRoot } from "./cache-folder.ts";
import { materializeDirectory } from "./directory-source.ts";
import { removeTree } from "./remove-tree.ts";
import type { MaterializeInput, MaterializeResult } from "./types.ts";
import { materializeUrl } from "./url-source.ts";
import { resolveRoot, seedPaseoConfig } from "./workspace-root.ts";

export type { MaterializeInput, MaterializeResult } from "./types.ts";

/**
 * Makes the content of a workspace. All or nothing: after a failure or a cancellation the content is gone and the
 * caches are usable.
 *
 * @throws RuntimeError git-source-unreachable, revision-unknown, branch-unknown, branch-name-invalid,
 *   change-request-unavailable, source-unsupported, subdirectory-missing, cwd-outside-workspace, git-missing, git-failed,
 *   wire-violation, cancelled, root-not-writable, or what the supply failed with
 */
export async function materialize(input: MaterializeInput): Promise<MaterializeResult> {
  const { contentPath, signal, source, placement } = input;
  try {
    if (signal.aborted) throw cancellation(signal);
    await ensureCacheRoot(input.cacheRoot);
    const made = source.kind === "git" ? await materializeUrl(input, source) : await materializeDirectory(input);
    const root = await resolveRoot(contentPath, made.subdirectory, placement.relativeCwd);
    if (input.paseoConfig !== undefined) await seedPaseoConfig(contentPath, root, input.paseoConfig);
    const baseline = await captureBaseline(contentPath, made.kind, signal);
    if (signal.aborted) throw cancellation(signal);
    return { kind: made.kind, root, ...(made.branch === undefined ? {} : { branch: made.branch }), baseline };
  } catch (error) {
    await removeTree(contentPath);
    throw failureOf(error);
  }
}

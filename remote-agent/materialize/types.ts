import type { Readable } from "node:stream";
import type { CommandRuntimePlacementIntent } from "../../src/contract/index.ts";
import type { SourceManifest } from "../../src/wire/source.ts";
import type { SourceHave } from "../../src/wire/source-have.ts";
import type { Baseline } from "./baseline.ts";

export interface MaterializeInput {
  /** Absolute path of the content to be; it does not exist yet, its parent does. */
  contentPath: string;
  /** Absolute path of the folder of the git caches; made when missing. */
  cacheRoot: string;
  source:
    | { kind: "git"; url: string; revision: string; subdirectory?: string | undefined }
    | { kind: "directory"; key: string };
  /** Asks the wrapper for a directory source; required for one. The stream is read to its end or destroyed. */
  supply?: ((have: SourceHave) => Promise<{ manifest: SourceManifest; stream: Readable }>) | undefined;
  placement: CommandRuntimePlacementIntent;
  workspaceId: string;
  markFirstAgentBranchAutoName?: boolean | undefined;
  /** Text for `paseo.json` in a workspace root that has none. */
  paseoConfig?: string | undefined;
  /** Gets short sentences for a person. */
  progress: (text: string) => void;
  signal: AbortSignal;
}

export interface MaterializeResult {
  kind: "git" | "plain";
  /** Workspace root relative to the content; empty when it is the content itself. */
  root: string;
  /** The branch that is checked out; absent for a detached HEAD and outside of git. */
  branch?: string;
  /** What `hasUnsavedWork` compares with later; plain data, to be stored. */
  baseline: Baseline;
}

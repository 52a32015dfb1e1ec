/** One valid message for every shape and branch of the contract, with all its optional keys present. */
export interface Sample {
  schema: string;
  value: Record<string, unknown>;
  /** The keys, as dotted paths, without which the message is still valid. */
  optional: string[];
}

const directory = { kind: "directory", path: "/srv/shop" };
const git = { kind: "git", url: "https://git.example.test/shop.git", revision: "v2.1", subdirectory: "apps/web" };
const changeRequest = {
  kind: "checkout-change-request",
  forge: "gitlab",
  changeRequestNumber: 7,
  githubPrNumber: 7,
  headRef: "topic",
  headRepositoryOwner: "fork",
  baseRefName: "main",
  checkoutRefs: [{ remoteName: "origin", remoteRef: "refs/merge-requests/7/head" }, { remoteRef: "topic" }],
  localBranchName: "mr-7",
  pushRemoteUrl: "https://git.example.test/fork.git",
  trackOriginHead: true,
};
const changeRequestOptional = [
  "forge",
  "changeRequestNumber",
  "githubPrNumber",
  "headRepositoryOwner",
  "checkoutRefs",
  "checkoutRefs.0.remoteName",
  "localBranchName",
  "pushRemoteUrl",
  "trackOriginHead",
];
const createInput = {
  workspaceId: "ws-7",
  project: { projectId: "shop", source: git },
  placement: { kind: "existing", relativeCwd: "apps" },
  purpose: "discovery",
  markFirstAgentBranchAutoName: true,
  seedPaseoConfigFrom: "/home/dev/shop",
};
const createInputOptional = [
  "project.source.subdirectory",
  "placement.relativeCwd",
  "purpose",
  "markFirstAgentBranchAutoName",
  "seedPaseoConfigFrom",
];
const readyState = { workspaceId: "ws-7", lifecycle: "ready", lifecycleEnvironment: { HOME: "/home/dev" } };
const pausedState = { ...readyState, lifecycle: "paused" };
const placement = { cwd: "/srv/ws-7" };
const spawn = {
  type: "spawn",
  protocolVersion: 1,
  runtimeInstanceId: "a1b2",
  argv: ["/bin/sh", "-l"],
  cwd: "apps/web",
  env: { LANG: "C.UTF-8" },
  purpose: { kind: "terminal" },
  options: { host: "build1" },
  execId: "e-1",
  stdio: { kind: "pty", rows: 30, cols: 100, term: "xterm-256color" },
};
const events = [
  { type: "started", protocolVersion: 1 },
  { type: "resized", protocolVersion: 1, id: 0 },
  { type: "eof", protocolVersion: 1 },
  { type: "exit", protocolVersion: 1, code: 3, signal: null },
  { type: "exit", protocolVersion: 1, code: null, signal: "SIGTERM" },
  { type: "error", protocolVersion: 1, message: "control channel failed" },
];

export const SAMPLES: Sample[] = [
  sample("CommandRuntimeProjectSourceSchema", directory),
  sample("CommandRuntimeProjectSourceSchema", git, ["subdirectory"]),
  sample("CommandRuntimePlacementIntentSchema", { kind: "existing", relativeCwd: "apps" }, ["relativeCwd"]),
  sample(
    "CommandRuntimePlacementIntentSchema",
    { kind: "branch", branchName: "x", baseRef: "main", relativeCwd: "apps", worktreeSlug: "x" },
    ["relativeCwd", "worktreeSlug"],
  ),
  sample(
    "CommandRuntimePlacementIntentSchema",
    { kind: "checkout", ref: "topic", relativeCwd: "apps", worktreeSlug: "x" },
    ["relativeCwd", "worktreeSlug"],
  ),
  ...[
    { source: { kind: "branch-off", baseBranch: "main", branchName: "x" }, optional: [] },
    { source: { kind: "checkout-branch", branchName: "x" }, optional: [] },
    { source: changeRequest, optional: changeRequestOptional },
    { source: { ...changeRequest, kind: "checkout-github-pr" }, optional: changeRequestOptional },
  ].map(({ source, optional }) =>
    sample(
      "CommandRuntimePlacementIntentSchema",
      { kind: "resolved-worktree", source, worktreeSlug: "x", relativeCwd: "apps" },
      ["relativeCwd", ...optional.map((key) => `source.${key}`)],
    ),
  ),
  sample("CommandRuntimeCreateInputSchema", createInput, createInputOptional),
  sample(
    "CommandRuntimeLifecycleRequestSchema",
    {
      protocolVersion: 1,
      runtimeInstanceId: "a1b2",
      input: createInput,
      options: { host: "build1", deep: { list: [1, null, "x", true] } },
      workspaceIds: ["ws-7", "ws-9"],
    },
    ["input", "workspaceIds", ...createInputOptional.map((key) => `input.${key}`)],
  ),
  sample("CommandRuntimeStateSchema", readyState, ["lifecycleEnvironment"]),
  sample("CommandRuntimeStateSchema", pausedState, ["lifecycleEnvironment"]),
  sample("CommandRuntimePlacementSchema", placement),
  sample("CommandRuntimeInspectionSchema", { status: "missing" }),
  sample("CommandRuntimeInspectionSchema", { status: "paused", state: pausedState, placement }, [
    "state.lifecycleEnvironment",
  ]),
  sample("CommandRuntimeInspectionSchema", { status: "ready", state: readyState, placement }, [
    "state.lifecycleEnvironment",
  ]),
  sample("CommandRuntimeInspectionSchema", { status: "error", message: "the disk is gone" }),
  sample(
    "CommandRuntimeLifecycleResponseSchema",
    { type: "state", protocolVersion: 1, state: readyState, placement, materializedFreshContent: false },
    ["state.lifecycleEnvironment", "materializedFreshContent"],
  ),
  sample(
    "CommandRuntimeLifecycleResponseSchema",
    { type: "inspection", protocolVersion: 1, inspection: { status: "ready", state: readyState, placement } },
    ["inspection.state.lifecycleEnvironment"],
  ),
  sample("CommandRuntimeLifecycleResponseSchema", { type: "ok", protocolVersion: 1 }),
  sample("CommandRuntimeDescribeResponseSchema", { protocolVersion: 1, modes: ["pipes", "pty"], reconcile: true }, [
    "reconcile",
  ]),
  ...["agent", "terminal", "git", "discovery", "workspace-helper", "workspace-script", "setup", "archive"].map((kind) =>
    sample("CommandRuntimeProcessPurposeSchema", { kind }),
  ),
  sample("CommandRuntimeStdioSchema", { kind: "pipes" }),
  sample("CommandRuntimeStdioSchema", { kind: "pty", rows: 1, cols: 100000, term: "xterm" }, ["term"]),
  sample("CommandRuntimeSpawnEnvelopeSchema", spawn, ["cwd", "stdio.term"]),
  sample("CommandRuntimeControlSchema", spawn, ["cwd", "stdio.term"]),
  sample("CommandRuntimeControlSchema", { type: "resize", protocolVersion: 1, id: 0, rows: 50, cols: 132 }),
  sample("CommandRuntimeControlSchema", { type: "signal", protocolVersion: 1, signal: "SIGINT" }),
  ...events.map((event) => sample("CommandRuntimeProcessEventSchema", event)),
];

function sample(schema: string, value: Record<string, unknown>, optional: string[] = []): Sample {
  return { schema, value, optional };
}

import * as z from "zod/mini";
import { EnvironmentSchema, OptionsSchema } from "./maps.ts";
import { ProtocolVersionSchema } from "./version.ts";

/*
 * The shapes of everything but exec. The order of the keys in each shape is part of the contract: a message is encoded
 * in that order. Every object is strict, so that a field of a later protocol version fails instead of being lost.
 * Schemas are built when a wrapper starts, which a person waits for: hence one instance of what occurs often, and a
 * literal of several values instead of an enum, which saves V8 from compiling one more class (0.2 ms).
 */

const text = z.string();
const optionalText = z.optional(text);
const optionalFlag = z.optional(z.boolean());

export const CommandRuntimeProjectSourceSchema = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("directory"), path: text }),
  z.strictObject({ kind: z.literal("git"), url: text, revision: text, subdirectory: optionalText }),
]);
export type CommandRuntimeProjectSource = z.infer<typeof CommandRuntimeProjectSourceSchema>;

const ResolvedWorktreeSourceSchema = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("branch-off"), baseBranch: text, branchName: text }),
  z.strictObject({ kind: z.literal("checkout-branch"), branchName: text }),
  z.strictObject({
    kind: z.literal(["checkout-change-request", "checkout-github-pr"]),
    forge: optionalText,
    changeRequestNumber: z.optional(z.number()),
    githubPrNumber: z.optional(z.number()),
    headRef: text,
    headRepositoryOwner: optionalText,
    baseRefName: text,
    checkoutRefs: z.optional(z.array(z.strictObject({ remoteName: optionalText, remoteRef: text }))),
    localBranchName: optionalText,
    pushRemoteUrl: optionalText,
    trackOriginHead: optionalFlag,
  }),
]);

export const CommandRuntimePlacementIntentSchema = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("existing"), relativeCwd: optionalText }),
  z.strictObject({
    kind: z.literal("branch"),
    branchName: text,
    baseRef: text,
    relativeCwd: optionalText,
    worktreeSlug: optionalText,
  }),
  z.strictObject({
    kind: z.literal("checkout"),
    ref: text,
    relativeCwd: optionalText,
    worktreeSlug: optionalText,
  }),
  z.strictObject({
    kind: z.literal("resolved-worktree"),
    source: ResolvedWorktreeSourceSchema,
    worktreeSlug: text,
    relativeCwd: optionalText,
  }),
]);
export type CommandRuntimePlacementIntent = z.infer<typeof CommandRuntimePlacementIntentSchema>;

export const CommandRuntimeCreateInputSchema = z.strictObject({
  workspaceId: text,
  project: z.strictObject({ projectId: text, source: CommandRuntimeProjectSourceSchema }),
  placement: CommandRuntimePlacementIntentSchema,
  purpose: z.optional(z.literal("discovery")),
  markFirstAgentBranchAutoName: optionalFlag,
  seedPaseoConfigFrom: optionalText,
});
export type CommandRuntimeCreateInput = z.infer<typeof CommandRuntimeCreateInputSchema>;

export const CommandRuntimeLifecycleRequestSchema = z.strictObject({
  protocolVersion: ProtocolVersionSchema,
  runtimeInstanceId: text.check(z.minLength(1)),
  input: z.optional(CommandRuntimeCreateInputSchema),
  options: OptionsSchema,
  workspaceIds: z.optional(z.array(text)),
});
export type CommandRuntimeLifecycleRequest = z.infer<typeof CommandRuntimeLifecycleRequestSchema>;

export const CommandRuntimeStateSchema = z.strictObject({
  workspaceId: text,
  lifecycle: z.literal(["ready", "paused"]),
  lifecycleEnvironment: z.optional(EnvironmentSchema),
});
export type CommandRuntimeState = z.infer<typeof CommandRuntimeStateSchema>;

export const CommandRuntimePlacementSchema = z.strictObject({ cwd: text });
export type CommandRuntimePlacement = z.infer<typeof CommandRuntimePlacementSchema>;

export const CommandRuntimeInspectionSchema = z.discriminatedUnion("status", [
  z.strictObject({ status: z.literal("missing") }),
  z.strictObject({
    status: z.literal("paused"),
    state: CommandRuntimeStateSchema,
    placement: CommandRuntimePlacementSchema,
  }),
  z.strictObject({
    status: z.literal("ready"),
    state: CommandRuntimeStateSchema,
    placement: CommandRuntimePlacementSchema,
  }),
  z.strictObject({ status: z.literal("error"), message: text }),
]);
export type CommandRuntimeInspection = z.infer<typeof CommandRuntimeInspectionSchema>;

export const CommandRuntimeLifecycleResponseSchema = z.discriminatedUnion("type", [
  z.strictObject({
    type: z.literal("state"),
    protocolVersion: ProtocolVersionSchema,
    state: CommandRuntimeStateSchema,
    placement: CommandRuntimePlacementSchema,
    materializedFreshContent: optionalFlag,
  }),
  z.strictObject({
    type: z.literal("inspection"),
    protocolVersion: ProtocolVersionSchema,
    inspection: CommandRuntimeInspectionSchema,
  }),
  z.strictObject({ type: z.literal("ok"), protocolVersion: ProtocolVersionSchema }),
]);
export type CommandRuntimeLifecycleResponse = z.infer<typeof CommandRuntimeLifecycleResponseSchema>;

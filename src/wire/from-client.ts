import * as z from "zod/mini";
import { CommandRuntimePlacementIntentSchema, CommandRuntimeStdioSchema } from "../contract/index.ts";
import { EnvironmentSchema } from "../contract/maps.ts";
import { errorDataOf, seqOf } from "./checks.ts";
import { type FramesOf, FrameType, type WireSide } from "./frame.ts";
import { count, ErrorDataSchema, name, text } from "./pieces.ts";
import { SourceManifestSchema } from "./source.ts";

/**
 * What a client (wrapper or broker) says to an agent. Strict, so that a field that one side does not know is never
 * lost in silence. Only the agent imports this at run time: see from-agent.ts.
 */

const Sha256 = z.string().check(z.regex(/^[0-9a-f]{64}$/));

const WorkspaceId = name(1024);
const InstanceId = name(1024);
const ExecId = name(1024);
/** Names one wrapper for as long as it lives: what it started is its own, also over a second connection. */
const Session = z.string().check(z.regex(/^[0-9A-Za-z_-]{8,64}$/));

/** What the runtime's options add to the environment of a workspace. */
const Environment = z.strictObject({
  path: z.array(name(4096)).check(z.maxLength(64)),
  env: EnvironmentSchema,
  /** SSH_AUTH_SOCK leads to the forwarded ssh agent, when there is one. */
  forwardAgent: z.optional(z.literal(true)),
});
export type EnvironmentOptions = z.infer<typeof Environment>;

/** The helper that the workload PATH begins with; `interpreter: "node"` when it is a script for node. */
const Helper = z.strictObject({
  sha256: Sha256,
  size: count(),
  fileName: z.string().check(z.regex(/^paseo-workspace-helper(\.[cm]?js)?$/)),
  interpreter: z.enum(["node", "none"]),
});
export type HelperIdentity = z.infer<typeof Helper>;

const owned = { workspaceId: WorkspaceId, runtimeInstanceId: InstanceId };
const shaped = { environment: Environment, helper: z.optional(Helper) };

export const CreateRequestSchema = z.strictObject({
  op: z.literal("create"),
  session: Session,
  ...owned,
  source: z.discriminatedUnion("kind", [
    z.strictObject({
      kind: z.literal("git"),
      url: name(8192),
      revision: text(1024),
      subdirectory: z.optional(text(4096)),
    }),
    z.strictObject({ kind: z.literal("directory"), key: name(128), label: text(4096) }),
  ]),
  placement: CommandRuntimePlacementIntentSchema,
  markFirstAgentBranchAutoName: z.optional(z.boolean()),
  paseoConfig: z.optional(text(1024 * 1024)),
  ...shaped,
});

export const ExecRequestSchema = z.strictObject({
  op: z.literal("exec"),
  session: Session,
  ...owned,
  execId: ExecId,
  argv: z.array(z.string()).check(z.minLength(1)),
  cwd: z.optional(text(4096)),
  env: EnvironmentSchema,
  stdio: CommandRuntimeStdioSchema,
  ...shaped,
  /** Milliseconds for which the workload outlives a lost link. */
  reconnectWindowMs: count(),
  /** Absent on the first connection; afterwards what the client has, from where the agent goes on. */
  resume: z.optional(z.strictObject({ stdout: count(), stderr: count(), eventSeq: count() })),
});

const RequestSchema = z.discriminatedUnion("op", [
  CreateRequestSchema,
  ExecRequestSchema,
  z.strictObject({ op: z.literal("inspect"), ...owned, ...shaped }),
  z.strictObject({ op: z.literal("resume"), ...owned, ...shaped }),
  z.strictObject({ op: z.literal("pause"), ...owned }),
  z.strictObject({ op: z.literal("destroy"), ...owned }),
  z.strictObject({ op: z.literal("signal"), ...owned, execId: ExecId, signal: name(32) }),
  z.strictObject({
    op: z.literal("reconcile"),
    runtimeInstanceId: InstanceId,
    workspaceIds: z.array(WorkspaceId).check(z.maxLength(100_000)),
  }),
  z.strictObject({ op: z.literal("abandon"), session: Session }),
  z.strictObject({ op: z.literal("status") }),
]);
export type WireRequest = z.infer<typeof RequestSchema>;
export type CreateRequest = z.infer<typeof CreateRequestSchema>;
export type ExecRequest = z.infer<typeof ExecRequestSchema>;

/** Answers a Need; the bytes themselves follow on the upload stream. */
const SupplySchema = z.discriminatedUnion("what", [
  z.strictObject({ what: z.literal("helper") }),
  z.strictObject({ what: z.literal("source"), manifest: SourceManifestSchema }),
  z.strictObject({ what: z.literal("error"), error: ErrorDataSchema }),
]);
export type WireSupply = z.infer<typeof SupplySchema>;

const ControlBody = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("resize"), id: count(), rows: count(), cols: count() }),
  z.strictObject({ type: z.literal("signal"), signal: name(32) }),
]);
export type WireControl = z.infer<typeof ControlBody>;

const ControlFrame = z.strictObject({ seq: count(), body: ControlBody });

const CLIENT_FRAMES = {
  [FrameType.Request]: bySchema(RequestSchema),
  [FrameType.Supply]: bySchema(SupplySchema),
  [FrameType.Control]: bySchema(ControlFrame),
  [FrameType.EventAcknowledge]: seqOf,
  [FrameType.Fatal]: errorDataOf,
};
export type ClientFrame = FramesOf<typeof CLIENT_FRAMES>;

/** The agent's side of a connection. */
export const AGENT_SIDE: WireSide<typeof CLIENT_FRAMES> = { accepts: CLIENT_FRAMES };

function bySchema<Schema extends z.ZodMiniType>(schema: Schema): (value: unknown) => z.infer<Schema> {
  return (value) => {
    const result = schema.safeParse(value);
    if (result.success) return result.data;
    const issue = result.error.issues[0];
    throw new Error(`${issue?.path.join(".") || "its root"} (${issue?.code ?? "unknown"})`);
  };
}

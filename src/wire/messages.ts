import * as z from "zod/mini";
import {
  CommandRuntimeLifecycleResponseSchema,
  CommandRuntimePlacementIntentSchema,
  CommandRuntimeStdioSchema,
} from "../contract/index.ts";
import { FrameType, type JsonFrameType, violation } from "./frame.ts";
import { SourceHaveSchema, SourceManifestSchema } from "./source.ts";

/** The JSON payloads of wire protocol v1. Strict, so that a field that one side does not know is never lost in silence. */

const text = (max: number) => z.string().check(z.maxLength(max));
const name = (max: number) => z.string().check(z.minLength(1), z.maxLength(max));
const count = () => z.int().check(z.nonnegative());
const Sha256 = z.string().check(z.regex(/^[0-9a-f]{64}$/));

const WorkspaceId = name(1024);
const InstanceId = name(1024);
const ExecId = name(1024);
/** Names one wrapper for as long as it lives: what it started is its own, also over a second connection. */
const Session = z.string().check(z.regex(/^[0-9A-Za-z_-]{8,64}$/));

/** What the runtime's options add to the environment of a workspace. */
const Environment = z.strictObject({
  path: z.array(name(4096)).check(z.maxLength(64)),
  env: z.record(z.string(), z.string()),
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
    z.strictObject({ kind: z.literal("git"), url: name(8192), revision: text(1024), subdirectory: z.optional(text(4096)) }),
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
  env: z.record(z.string(), z.string()),
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

export const ErrorDataSchema = z.strictObject({ code: name(64), message: text(8192), remedy: text(8192) });

const ResponseSchema = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("lifecycle"), response: CommandRuntimeLifecycleResponseSchema }),
  /** The agent has the execution; it has stdin up to this offset and controls up to this number. */
  z.strictObject({ kind: z.literal("attached"), stdin: count(), controlSeq: count() }),
  z.strictObject({
    kind: z.literal("status"),
    pid: count(),
    build: text(64),
    workspaces: count(),
    executions: count(),
    startedAt: text(64),
  }),
  z.strictObject({ kind: z.literal("error"), error: ErrorDataSchema }),
]);
export type WireResponse = z.infer<typeof ResponseSchema>;

const NeedSchema = z.discriminatedUnion("what", [
  z.strictObject({ what: z.literal("helper") }),
  z.strictObject({ what: z.literal("source"), have: SourceHaveSchema }),
]);
export type WireNeed = z.infer<typeof NeedSchema>;

/** Answers a Need; the bytes themselves follow on the upload stream. */
const SupplySchema = z.discriminatedUnion("what", [
  z.strictObject({ what: z.literal("helper") }),
  z.strictObject({ what: z.literal("source"), manifest: SourceManifestSchema }),
  z.strictObject({ what: z.literal("error"), error: ErrorDataSchema }),
]);
export type WireSupply = z.infer<typeof SupplySchema>;

const EventBody = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("started") }),
  z.strictObject({ type: z.literal("resized"), id: count() }),
  z.strictObject({ type: z.literal("exit"), code: z.nullable(z.int()), signal: z.nullable(z.string()) }),
  z.strictObject({ type: z.literal("error"), error: ErrorDataSchema }),
]);
export type WireEvent = z.infer<typeof EventBody>;

const ControlBody = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("resize"), id: count(), rows: count(), cols: count() }),
  z.strictObject({ type: z.literal("signal"), signal: name(32) }),
]);
export type WireControl = z.infer<typeof ControlBody>;

const EventSchema = z.strictObject({ seq: count(), body: EventBody });
const ControlSchema = z.strictObject({ seq: count(), body: ControlBody });
const SeqSchema = z.strictObject({ seq: count() });

const SCHEMAS = {
  [FrameType.Request]: RequestSchema,
  [FrameType.Response]: ResponseSchema,
  [FrameType.Progress]: z.strictObject({ text: text(1024) }),
  [FrameType.Need]: NeedSchema,
  [FrameType.Supply]: SupplySchema,
  [FrameType.Event]: EventSchema,
  [FrameType.EventAcknowledge]: SeqSchema,
  [FrameType.Control]: ControlSchema,
  [FrameType.ControlAcknowledge]: SeqSchema,
  [FrameType.Fatal]: ErrorDataSchema,
} satisfies Record<JsonFrameType, z.ZodMiniType>;

export type JsonFrame = {
  [T in JsonFrameType]: { type: T; value: z.infer<(typeof SCHEMAS)[T]> };
}[JsonFrameType];

/** @throws RuntimeError wire-violation when the payload is not what this frame type carries. */
export function checkJsonFrame(type: JsonFrameType, value: unknown): JsonFrame {
  const result = SCHEMAS[type].safeParse(value);
  if (!result.success) {
    const issue = result.error.issues[0];
    throw violation(`a ${FrameType[type]} frame is malformed at ${issue?.path.join(".") || "its root"} (${issue?.code ?? "unknown"})`);
  }
  return { type, value: result.data } as JsonFrame;
}

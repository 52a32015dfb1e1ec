import * as z from "zod/mini";
import { EnvironmentSchema, OptionsSchema } from "./maps.ts";
import { ProtocolVersionSchema } from "./version.ts";

/* The shapes of exec: what fd 3 carries to the wrapper and fd 4 carries back. The rules of lifecycle.ts hold here too. */

const text = z.string();
const nonEmptyText = text.check(z.minLength(1));
/** Rows or columns. What a terminal can really have is bounded by the agent, not by the contract. */
const terminalSize = z.int().check(z.positive());
const resizeId = z.int().check(z.nonnegative());

export const CommandRuntimeProcessPurposeSchema = z.strictObject({
  kind: z.literal([
    "agent",
    "terminal",
    "git",
    "discovery",
    "workspace-helper",
    "workspace-script",
    "setup",
    "archive",
  ]),
});
export type CommandRuntimeProcessPurpose = z.infer<typeof CommandRuntimeProcessPurposeSchema>;

export const CommandRuntimeStdioSchema = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("pipes") }),
  z.strictObject({
    kind: z.literal("pty"),
    rows: terminalSize,
    cols: terminalSize,
    term: z.optional(text),
  }),
]);
export type CommandRuntimeStdio = z.infer<typeof CommandRuntimeStdioSchema>;

export const CommandRuntimeSpawnEnvelopeSchema = z.strictObject({
  type: z.literal("spawn"),
  protocolVersion: ProtocolVersionSchema,
  runtimeInstanceId: nonEmptyText,
  argv: z.array(text).check(z.minLength(1)),
  cwd: z.optional(text),
  env: EnvironmentSchema,
  purpose: CommandRuntimeProcessPurposeSchema,
  options: OptionsSchema,
  execId: nonEmptyText,
  stdio: CommandRuntimeStdioSchema,
});
export type CommandRuntimeSpawnEnvelope = z.infer<typeof CommandRuntimeSpawnEnvelopeSchema>;

export const CommandRuntimeControlSchema = z.discriminatedUnion("type", [
  CommandRuntimeSpawnEnvelopeSchema,
  z.strictObject({
    type: z.literal("resize"),
    protocolVersion: ProtocolVersionSchema,
    id: resizeId,
    rows: terminalSize,
    cols: terminalSize,
  }),
  z.strictObject({ type: z.literal("signal"), protocolVersion: ProtocolVersionSchema, signal: text }),
]);
export type CommandRuntimeControl = z.infer<typeof CommandRuntimeControlSchema>;

export const CommandRuntimeProcessEventSchema = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("started"), protocolVersion: ProtocolVersionSchema }),
  z.strictObject({ type: z.literal("eof"), protocolVersion: ProtocolVersionSchema }),
  z.strictObject({ type: z.literal("resized"), protocolVersion: ProtocolVersionSchema, id: resizeId }),
  z.strictObject({
    type: z.literal("exit"),
    protocolVersion: ProtocolVersionSchema,
    code: z.nullable(z.int()),
    signal: z.nullable(text),
  }),
  z.strictObject({ type: z.literal("error"), protocolVersion: ProtocolVersionSchema, message: text }),
]);
export type CommandRuntimeProcessEvent = z.infer<typeof CommandRuntimeProcessEventSchema>;

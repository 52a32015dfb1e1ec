import * as z from "zod/mini";
import type { CommandRuntimeLifecycleResponse } from "../contract/index.ts";
import { type FramesOf, FrameType, type WireSide } from "./frame.ts";
import { count, ErrorDataSchema, SeqSchema, text } from "./pieces.ts";
import { SourceHaveSchema } from "./source.ts";

/**
 * What an agent says to a client. Apart from from-client.ts, because building schemas is most of what a wrapper does
 * before its first byte leaves, and it needs only these.
 */

const ResponseSchema = z.discriminatedUnion("kind", [
  /** A message of the contract; the wrapper checks it against the contract's schema when it prints it. */
  z.strictObject({ kind: z.literal("lifecycle"), response: z.custom<CommandRuntimeLifecycleResponse>() }),
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

const EventBody = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("started") }),
  z.strictObject({ type: z.literal("resized"), id: count() }),
  z.strictObject({ type: z.literal("exit"), code: z.nullable(z.int()), signal: z.nullable(z.string()) }),
  z.strictObject({ type: z.literal("error"), error: ErrorDataSchema }),
]);
export type WireEvent = z.infer<typeof EventBody>;

const AGENT_FRAMES = {
  [FrameType.Response]: ResponseSchema,
  [FrameType.Progress]: z.strictObject({ text: text(1024) }),
  [FrameType.Need]: NeedSchema,
  [FrameType.Event]: z.strictObject({ seq: count(), body: EventBody }),
  [FrameType.ControlAcknowledge]: SeqSchema,
  [FrameType.Fatal]: ErrorDataSchema,
};
export type AgentFrame = FramesOf<typeof AGENT_FRAMES>;

/** A client's side of a connection. */
export const CLIENT_SIDE: WireSide<typeof AGENT_FRAMES> = { accepts: AGENT_FRAMES };

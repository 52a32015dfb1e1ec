import * as z from "zod/mini";
import type { CommandRuntimeLifecycleResponse } from "../contract/index.ts";
import { type FramesOf, FrameType, type WireSide } from "./frame.ts";
import { lazily } from "./lazily.ts";
import { count, errorDataSchema, seqSchema, text } from "./pieces.ts";
import { SourceHaveSchema } from "./source-have.ts";

/**
 * What an agent says to a client. Apart from from-client.ts, because building schemas is most of what a wrapper does
 * before its first byte leaves, and it needs only these.
 */

const responseSchema = lazily(() =>
  z.discriminatedUnion("kind", [
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
    z.strictObject({ kind: z.literal("error"), error: errorDataSchema() }),
  ]),
);
export type WireResponse = z.infer<ReturnType<typeof responseSchema>>;

const needSchema = lazily(() =>
  z.discriminatedUnion("what", [
    z.strictObject({ what: z.literal("helper") }),
    z.strictObject({ what: z.literal("source"), have: SourceHaveSchema }),
  ]),
);
export type WireNeed = z.infer<ReturnType<typeof needSchema>>;

const eventBody = lazily(() =>
  z.discriminatedUnion("type", [
    z.strictObject({ type: z.literal("started") }),
    z.strictObject({ type: z.literal("resized"), id: count() }),
    z.strictObject({ type: z.literal("exit"), code: z.nullable(z.int()), signal: z.nullable(z.string()) }),
    z.strictObject({ type: z.literal("error"), error: errorDataSchema() }),
  ]),
);
export type WireEvent = z.infer<ReturnType<typeof eventBody>>;

const AGENT_FRAMES = {
  [FrameType.Response]: responseSchema,
  [FrameType.Progress]: lazily(() => z.strictObject({ text: text(1024) })),
  [FrameType.Need]: needSchema,
  [FrameType.Event]: lazily(() => z.strictObject({ seq: count(), body: eventBody() })),
  [FrameType.ControlAcknowledge]: seqSchema,
  [FrameType.Fatal]: errorDataSchema,
};
export type AgentFrame = FramesOf<typeof AGENT_FRAMES>;

/** A client's side of a connection. */
export const CLIENT_SIDE: WireSide<typeof AGENT_FRAMES> = { accepts: AGENT_FRAMES };

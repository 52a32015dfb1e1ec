import * as z from "zod/mini";
import { lazily } from "./lazily.ts";
import { errorDataSchema } from "./pieces.ts";

/**
 * The dial protocol between a wrapper and the broker, over the broker's unix socket. The wrapper sends one JSON line;
 * the broker answers with JSON lines. After `connected` the socket carries wire protocol v1 to the agent and back,
 * and the broker no longer looks at it. A wrapper sends its first wire bytes right behind the dial line.
 */

/** Longest line of the dial protocol, bytes. */
export const MAX_DIAL_LINE_BYTES = 256 * 1024;

/** What of the caller's environment decides how a host is reached. The broker's own may be another one. */
const callerSchema = () =>
  z.strictObject({
    HOME: z.optional(z.string()),
    PATH: z.optional(z.string()),
    SSH_AUTH_SOCK: z.optional(z.string()),
  });
export type DialCaller = z.infer<ReturnType<typeof callerSchema>>;

const dialRequestSchema = lazily(() =>
  z.discriminatedUnion("type", [
    z.strictObject({
      type: z.literal("dial"),
      /** The runtime's options as they came; the broker validates them again. */
      options: z.record(z.string(), z.unknown()),
      caller: callerSchema(),
      /** Set for executions: when the wrapper goes away before its operation has ended, this session is abandoned. */
      session: z.optional(z.string()),
      /** Set when an execution is being resumed: wait for the host until this many milliseconds have passed. */
      patienceMs: z.optional(z.int()),
    }),
    z.strictObject({ type: z.literal("status") }),
    z.strictObject({ type: z.literal("stop") }),
  ]),
);
export type DialRequest = z.infer<ReturnType<typeof dialRequestSchema>>;

/** @throws Error when it is no request */
export function parseDialRequest(line: string): DialRequest {
  return dialRequestSchema().parse(JSON.parse(line));
}

const hostStatusSchema = () =>
  z.strictObject({
    host: z.string(),
    state: z.enum(["connecting", "connected", "waiting"]),
    channels: z.int(),
    spares: z.int(),
    agent: z.optional(z.strictObject({ pid: z.int(), build: z.string(), node: z.string(), platform: z.string() })),
    error: z.optional(z.string()),
  });
export type HostStatus = z.infer<ReturnType<typeof hostStatusSchema>>;

const dialReplySchema = lazily(() =>
  z.discriminatedUnion("type", [
    z.strictObject({ type: z.literal("progress"), text: z.string() }),
    z.strictObject({ type: z.literal("connected") }),
    z.strictObject({ type: z.literal("error"), error: errorDataSchema() }),
    z.strictObject({ type: z.literal("status"), pid: z.int(), hosts: z.array(hostStatusSchema()) }),
    z.strictObject({ type: z.literal("stopping"), pid: z.int() }),
  ]),
);
export type DialReply = z.infer<ReturnType<typeof dialReplySchema>>;

const CONNECTED: DialReply = { type: "connected" };
const CONNECTED_LINE = JSON.stringify(CONNECTED);

/**
 * Reads a line of the broker. The one that every warm operation gets is known by its text: building the schema for
 * it would cost start-up time.
 * @throws Error when it is no reply
 */
export function parseDialReply(line: string): DialReply {
  return line === CONNECTED_LINE ? CONNECTED : dialReplySchema().parse(JSON.parse(line));
}

/** Cuts one line off the front of what has arrived; shared by both ends, since both are followed by raw bytes. */
export class DialLineReader {
  #buffered: Buffer = Buffer.alloc(0);

  /** @throws RangeError when a line is longer than the protocol allows */
  push(chunk: Buffer): void {
    this.#buffered = this.#buffered.length === 0 ? chunk : Buffer.concat([this.#buffered, chunk]);
    if (
      this.#buffered.length > MAX_DIAL_LINE_BYTES &&
      !this.#buffered.subarray(0, MAX_DIAL_LINE_BYTES).includes(0x0a)
    ) {
      throw new RangeError("line too long");
    }
  }

  /** The next whole line without its newline, or undefined. */
  next(): string | undefined {
    const at = this.#buffered.indexOf(0x0a);
    if (at < 0) return undefined;
    const line = this.#buffered.toString("utf8", 0, at);
    this.#buffered = this.#buffered.subarray(at + 1);
    return line;
  }

  /** Everything behind the lines that were taken. */
  rest(): Buffer {
    const rest = this.#buffered;
    this.#buffered = Buffer.alloc(0);
    return rest;
  }
}

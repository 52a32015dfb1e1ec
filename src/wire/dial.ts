import { countOf, errorDataOf, type Fields, fields, textOf } from "./checks.ts";
import type { ErrorData } from "./errors.ts";

/**
 * The dial protocol between a wrapper and the broker, over the broker's unix socket. The wrapper sends one JSON line;
 * the broker answers with JSON lines. After `connected` the socket carries wire protocol v1 to the agent and back,
 * and the broker no longer looks at it. A wrapper sends its first wire bytes right behind the dial line.
 */

/** Longest line of the dial protocol, bytes. */
export const MAX_DIAL_LINE_BYTES = 256 * 1024;
/** Longest text in a reply, characters. */
const MAX_TEXT = 8192;

/** What of the caller's environment decides how a host is reached. The broker's own may be another one. */
export interface DialCaller {
  HOME?: string | undefined;
  PATH?: string | undefined;
  SSH_AUTH_SOCK?: string | undefined;
  DBUS_SESSION_BUS_ADDRESS?: string | undefined;
  XDG_RUNTIME_DIR?: string | undefined;
}

export type DialRequest =
  | {
      type: "dial";
      /** The runtime's options as they came; the broker validates them. */
      options: Record<string, unknown>;
      caller: DialCaller;
      /** Set for executions: when the wrapper goes away before its operation has ended, this session is abandoned. */
      session?: string | undefined;
      /** Set when an execution is being resumed: wait for the host until this many milliseconds have passed. */
      patienceMs?: number | undefined;
    }
  | { type: "status" }
  | { type: "stop" };

export interface HostStatus {
  /** As the options name it. */
  host: string;
  state: "connecting" | "connected" | "waiting";
  /** Channels that carry something for a wrapper. */
  channels: number;
  spares: number;
  /** Milliseconds since the login. */
  connectedForMs?: number;
  /** Which program speaks SSH: `ssh2` (within the broker) or `openssh`. */
  carrier?: string;
  /** Milliseconds from a question to the agent to its answer. */
  roundTripMs?: number;
  /** What the agent has, of all of its clients. */
  workspaces?: number;
  executions?: number;
  agent?: { pid: number; build: string; node: string; platform: string };
  /** Why the host is not connected. */
  error?: string;
}

export type DialReply =
  | { type: "progress"; text: string }
  | { type: "connected" }
  | { type: "error"; error: ErrorData }
  | { type: "status"; pid: number; hosts: HostStatus[] }
  | { type: "stopping"; pid: number };

/** @throws Error when it is no reply */
export function parseDialReply(line: string): DialReply {
  const value: unknown = JSON.parse(line);
  const type = (value as Fields | null)?.type;
  switch (type) {
    case "connected":
      fields(value, "type");
      return { type };
    case "progress":
      return { type, text: textOf(fields(value, "type", "text"), "text", MAX_TEXT) };
    case "error":
      return { type, error: errorDataOf(fields(value, "type", "error").error) };
    case "stopping":
      return { type, pid: countOf(fields(value, "type", "pid"), "pid") };
    case "status": {
      const data = fields(value, "type", "pid", "hosts");
      if (!Array.isArray(data.hosts)) throw new Error("hosts");
      return { type, pid: countOf(data, "pid"), hosts: data.hosts.map(hostStatusOf) };
    }
    default:
      throw new Error("type");
  }
}

function hostStatusOf(value: unknown): HostStatus {
  const optional = ["connectedForMs", "roundTripMs", "workspaces", "executions"] as const;
  const data = fields(value, "host", "state", "channels", "spares", "carrier", ...optional, "agent", "error");
  const { state } = data;
  if (state !== "connecting" && state !== "connected" && state !== "waiting") throw new Error("state");
  return {
    host: textOf(data, "host", MAX_TEXT),
    state,
    channels: countOf(data, "channels"),
    spares: countOf(data, "spares"),
    ...(data.carrier === undefined ? {} : { carrier: textOf(data, "carrier", MAX_TEXT) }),
    ...Object.fromEntries(
      optional.filter((name) => data[name] !== undefined).map((name) => [name, countOf(data, name)]),
    ),
    ...(data.agent === undefined ? {} : { agent: agentOf(data.agent) }),
    ...(data.error === undefined ? {} : { error: textOf(data, "error", MAX_TEXT) }),
  };
}

function agentOf(value: unknown): NonNullable<HostStatus["agent"]> {
  const data = fields(value, "pid", "build", "node", "platform");
  return {
    pid: countOf(data, "pid"),
    build: textOf(data, "build", MAX_TEXT),
    node: textOf(data, "node", MAX_TEXT),
    platform: textOf(data, "platform", MAX_TEXT),
  };
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

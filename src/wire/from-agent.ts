import type { CommandRuntimeLifecycleResponse } from "../contract/index.ts";
import { countOf, errorDataOf, type Fields, fields, seqOf, textOf } from "./checks.ts";
import type { ErrorData } from "./errors.ts";
import { type FramesOf, FrameType, type WireSide } from "./frame.ts";
import { MAX_HAVE_COMMITS, type SourceHave } from "./source-have.ts";

/** What an agent says to a client. Strict, so that a field that one side does not know is never lost in silence. */

export type WireResponse =
  /** A message of the contract; whoever prints it checks it against the contract. */
  | { kind: "lifecycle"; response: CommandRuntimeLifecycleResponse }
  /** The agent has the execution; it has stdin up to this offset and controls up to this number. */
  | { kind: "attached"; stdin: number; controlSeq: number }
  | { kind: "status"; pid: number; build: string; workspaces: number; executions: number; startedAt: string }
  | { kind: "error"; error: ErrorData };

function responseOf(value: unknown): WireResponse {
  const kind = (value as Fields | null)?.kind;
  switch (kind) {
    case "lifecycle": {
      const { response } = fields(value, "kind", "response");
      return { kind, response: response as CommandRuntimeLifecycleResponse };
    }
    case "attached": {
      const data = fields(value, "kind", "stdin", "controlSeq");
      return { kind, stdin: countOf(data, "stdin"), controlSeq: countOf(data, "controlSeq") };
    }
    case "status": {
      const data = fields(value, "kind", "pid", "build", "workspaces", "executions", "startedAt");
      return {
        kind,
        pid: countOf(data, "pid"),
        build: textOf(data, "build", 64),
        workspaces: countOf(data, "workspaces"),
        executions: countOf(data, "executions"),
        startedAt: textOf(data, "startedAt", 64),
      };
    }
    case "error":
      return { kind, error: errorDataOf(fields(value, "kind", "error").error) };
    default:
      throw new Error("kind");
  }
}

export type WireNeed = { what: "helper" } | { what: "source"; have: SourceHave };

function needOf(value: unknown): WireNeed {
  const what = (value as Fields | null)?.what;
  switch (what) {
    case "helper":
      fields(value, "what");
      return { what };
    case "source":
      return { what, have: haveOf(fields(value, "what", "have").have) };
    default:
      throw new Error("what");
  }
}

function haveOf(value: unknown): SourceHave {
  const { commits } = fields(value, "commits");
  const isId = (id: unknown) => typeof id === "string" && /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(id);
  if (!Array.isArray(commits) || commits.length > MAX_HAVE_COMMITS || !commits.every(isId))
    throw new Error("have.commits");
  return { commits };
}

export type WireEvent =
  | { type: "started" }
  | { type: "resized"; id: number }
  | { type: "exit"; code: number | null; signal: string | null }
  | { type: "error"; error: ErrorData };

function eventOf(value: unknown): WireEvent {
  const type = (value as Fields | null)?.type;
  switch (type) {
    case "started":
      fields(value, "type");
      return { type };
    case "resized":
      return { type, id: countOf(fields(value, "type", "id"), "id") };
    case "exit": {
      const data = fields(value, "type", "code", "signal");
      return {
        type,
        code: data.code === null ? null : countOf(data, "code"),
        signal: data.signal === null ? null : textOf(data, "signal", 32),
      };
    }
    case "error":
      return { type, error: errorDataOf(fields(value, "type", "error").error) };
    default:
      throw new Error("body.type");
  }
}

const AGENT_FRAMES = {
  [FrameType.Response]: responseOf,
  [FrameType.Progress]: (value: unknown) => ({ text: textOf(fields(value, "text"), "text", 1024) }),
  [FrameType.Need]: needOf,
  [FrameType.Event]: (value: unknown) => {
    const data = fields(value, "seq", "body");
    return { seq: countOf(data, "seq"), body: eventOf(data.body) };
  },
  [FrameType.ControlAcknowledge]: seqOf,
  [FrameType.Fatal]: errorDataOf,
};
export type AgentFrame = FramesOf<typeof AGENT_FRAMES>;

/** A client's side of a connection. */
export const CLIENT_SIDE: WireSide<typeof AGENT_FRAMES> = { accepts: AGENT_FRAMES };

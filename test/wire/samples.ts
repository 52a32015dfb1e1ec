import { FrameType, type JsonFrameType } from "../../src/wire/frame.ts";

/** One valid payload, or more, of every JSON frame of wire protocol v1. */

const owned = { workspaceId: "w", runtimeInstanceId: "i" };
const shaped = { environment: { path: ["~/bin"], env: { A: "1" } } };
const id = "0123456789012345678901234567890123456789";
const helper = {
  sha256: "0".repeat(64),
  size: 10,
  fileName: "paseo-workspace-helper.cjs",
  interpreter: "node",
};

export const SAMPLES: { type: JsonFrameType; value: object }[] = [
  { type: FrameType.Request, value: { op: "status" } },
  { type: FrameType.Request, value: { op: "abandon", session: "session-1" } },
  { type: FrameType.Request, value: { op: "inspect", ...owned, ...shaped, helper } },
  { type: FrameType.Request, value: { op: "resume", ...owned, ...shaped } },
  { type: FrameType.Request, value: { op: "pause", ...owned } },
  { type: FrameType.Request, value: { op: "destroy", ...owned } },
  { type: FrameType.Request, value: { op: "signal", ...owned, execId: "e", signal: "SIGTERM" } },
  { type: FrameType.Request, value: { op: "reconcile", runtimeInstanceId: "i", workspaceIds: ["w"] } },
  {
    type: FrameType.Request,
    value: {
      op: "create",
      session: "session-1",
      ...owned,
      source: { kind: "git", url: "https://host/x.git", revision: "main", subdirectory: "sub" },
      placement: { kind: "existing" },
      markFirstAgentBranchAutoName: true,
      paseoConfig: "{}",
      ...shaped,
    },
  },
  {
    type: FrameType.Request,
    value: {
      op: "exec",
      session: "session-1",
      ...owned,
      execId: "e",
      argv: ["true"],
      cwd: "sub",
      env: { PATH: "/bin", __proto__: "x" },
      stdio: { kind: "pty", rows: 24, cols: 80, term: "xterm" },
      ...shaped,
      reconnectWindowMs: 1000,
      resume: { stdout: 1, stderr: 2, eventSeq: 3 },
    },
  },
  { type: FrameType.Response, value: { kind: "attached", stdin: 0, controlSeq: 0 } },
  { type: FrameType.Response, value: { kind: "lifecycle", response: { type: "ok", protocolVersion: 1 } } },
  {
    type: FrameType.Response,
    value: { kind: "status", pid: 1, build: "b", workspaces: 1, executions: 1, startedAt: "now" },
  },
  { type: FrameType.Response, value: { kind: "error", error: { code: "usage", message: "m", remedy: "r" } } },
  { type: FrameType.Progress, value: { text: "Packing…" } },
  { type: FrameType.Need, value: { what: "helper" } },
  { type: FrameType.Need, value: { what: "source", have: { commits: [id] } } },
  { type: FrameType.Supply, value: { what: "helper" } },
  { type: FrameType.Supply, value: { what: "source", manifest: { kind: "plain" } } },
  {
    type: FrameType.Supply,
    value: {
      what: "source",
      manifest: {
        kind: "git",
        objectFormat: "sha1",
        refs: [{ name: "refs/heads/main", id }],
        symbolicRefs: [{ name: "refs/remotes/origin/HEAD", target: "refs/remotes/origin/main" }],
        head: { kind: "branch", ref: "refs/heads/main" },
        shallow: [id],
        selfContained: false,
        state: { index: id, workTree: id, intentToAdd: ["YQ=="] },
        fetched: [{ remote: "origin", ref: "main", id }],
        subdirectory: "",
      },
    },
  },
  { type: FrameType.Supply, value: { what: "error", error: { code: "usage", message: "m", remedy: "" } } },
  { type: FrameType.Event, value: { seq: 1, body: { type: "started" } } },
  { type: FrameType.Event, value: { seq: 2, body: { type: "resized", id: 1 } } },
  { type: FrameType.Event, value: { seq: 3, body: { type: "exit", code: null, signal: "SIGTERM" } } },
  {
    type: FrameType.Event,
    value: { seq: 4, body: { type: "error", error: { code: "usage", message: "m", remedy: "" } } },
  },
  { type: FrameType.EventAcknowledge, value: { seq: 1 } },
  { type: FrameType.Control, value: { seq: 1, body: { type: "resize", id: 1, rows: 24, cols: 80 } } },
  { type: FrameType.Control, value: { seq: 2, body: { type: "signal", signal: "SIGINT" } } },
  { type: FrameType.ControlAcknowledge, value: { seq: 1 } },
  { type: FrameType.Fatal, value: { code: "wire-violation", message: "m", remedy: "r" } },
];

import { once } from "node:events";
import type { Socket } from "node:net";
import { buffer } from "node:stream/consumers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type ConnectionHandler, WireConnection } from "../../src/wire/connection.ts";
import { RuntimeError } from "../../src/wire/errors.ts";
import {
  encodeJsonFrame,
  FrameDecoder,
  FrameType,
  type JsonFrameType,
  type MarkFrameType,
  PREAMBLE,
  StreamId,
} from "../../src/wire/frame.ts";
import { CLIENT_SIDE } from "../../src/wire/from-agent.ts";
import { AGENT_SIDE } from "../../src/wire/from-client.ts";
import {
  FAREWELL_DEADLINE_MS,
  MAX_DATA_BYTES,
  PREAMBLE_DEADLINE_MS,
  STREAM_WINDOW_BYTES,
} from "../../src/wire/limits.ts";
import { socketPair } from "../support/socket-pair.ts";
import { type Frame, JSON_TYPES, joined, Recorder } from "./frames.ts";
import { SAMPLES } from "./samples.ts";

type Seen = string | { json: JsonFrameType; value: unknown };

/** Writes down what a connection reports, and lets a test wait for it. */
class Log implements ConnectionHandler<{ type: JsonFrameType; value: unknown }> {
  readonly seen: Seen[] = [];
  readonly closed: Promise<RuntimeError | undefined>;
  #onClosed: (error: RuntimeError | undefined) => void = () => {};
  #waiting: (() => void)[] = [];

  constructor() {
    this.closed = new Promise((resolve) => {
      this.#onClosed = resolve;
    });
  }

  onJson(frame: { type: JsonFrameType; value: unknown }): void {
    this.#note({ json: frame.type, value: frame.value });
  }

  onData(stream: StreamId, offset: number, chunk: Buffer): void {
    this.#note(`data ${StreamId[stream]} ${offset} ${chunk.toString()}`);
  }

  onMark(type: MarkFrameType, stream: StreamId, offset: number): void {
    this.#note(`${FrameType[type]} ${StreamId[stream]} ${offset}`);
  }

  onEnd(): void {
    this.#note("end");
  }

  onClose(error: RuntimeError | undefined): void {
    this.#note(error === undefined ? "closed" : `closed ${error.code}`);
    this.#onClosed(error);
  }

  async until(count: number): Promise<void> {
    while (this.seen.length < count) await new Promise<void>((wake) => this.#waiting.push(wake));
  }

  #note(what: Seen): void {
    this.seen.push(what);
    for (const wake of this.#waiting.splice(0)) wake();
  }
}

const STATUS = { op: "status" };
const FROM_AGENT = new Set(Object.keys(CLIENT_SIDE.accepts).map(Number));
const FROM_CLIENT = new Set(Object.keys(AGENT_SIDE.accepts).map(Number));

/** The agent's side of a connection, with a bare socket in the client's place. */
async function agentAndSocket(): Promise<{ agent: WireConnection; log: Log; near: Socket; peer: Socket }> {
  const [near, peer] = await socketPair();
  const log = new Log();
  const agent: WireConnection = new WireConnection(near, AGENT_SIDE, log);
  agent.start();
  return { agent, log, near, peer };
}

async function bothSides(): Promise<{ client: WireConnection; agent: WireConnection; clientLog: Log; agentLog: Log }> {
  const [near, far] = await socketPair();
  const clientLog = new Log();
  const agentLog = new Log();
  const client: WireConnection = new WireConnection(near, CLIENT_SIDE, clientLog);
  const agent: WireConnection = new WireConnection(far, AGENT_SIDE, agentLog);
  client.start();
  agent.start();
  return { client, agent, clientLog, agentLog };
}

/** The frames that a bare socket got until its end. */
async function framesOn(socket: Socket): Promise<Frame[]> {
  const recorder = new Recorder();
  new FrameDecoder(recorder).push(await buffer(socket));
  return joined(recorder.frames);
}

describe("a connection", () => {
  it("carries messages, data and marks both ways", async () => {
    const { client, agent, clientLog, agentLog } = await bothSides();
    client.sendJson(FrameType.Request, STATUS);
    client.sendData(StreamId.Stdin, 2 ** 33, Buffer.from("in"));
    client.sendMark(FrameType.End, StreamId.Stdin, 2 ** 33 + 2);
    agent.sendMark(FrameType.Refuse, StreamId.Stdin, 1);
    agent.sendData(StreamId.Stderr, 0, Buffer.from("out"));
    await Promise.all([agentLog.until(3), clientLog.until(2)]);
    expect(agentLog.seen).toEqual([
      { json: FrameType.Request, value: STATUS },
      `data Stdin ${2 ** 33} in`,
      `End Stdin ${2 ** 33 + 2}`,
    ]);
    expect(clientLog.seen).toEqual(["Refuse Stdin 1", "data Stderr 0 out"]);
  });

  it("sends its preamble before anything else, without waiting for the other one", async () => {
    const { peer } = await agentAndSocket();
    const [first] = (await once(peer, "data")) as [Buffer];
    expect(first.equals(PREAMBLE)).toBe(true);
  });

  it("takes up bytes that somebody else has read before, whole frames and halves", async () => {
    const [near, peer] = await socketPair();
    const log = new Log();
    const connection: WireConnection = new WireConnection(near, AGENT_SIDE, log);
    const bytes = Buffer.concat([
      PREAMBLE,
      encodeJsonFrame(FrameType.Request, STATUS),
      encodeJsonFrame(FrameType.EventAcknowledge, { seq: 7 }),
    ]);
    connection.start(bytes.subarray(0, -4));
    expect(log.seen).toEqual([{ json: FrameType.Request, value: STATUS }]);
    peer.write(bytes.subarray(-4));
    await log.until(2);
    expect(log.seen[1]).toEqual({ json: FrameType.EventAcknowledge, value: { seq: 7 } });
  });

  it("sends before it is started, and reads nothing until then", async () => {
    const [near, far] = await socketPair();
    const log = new Log();
    const late: WireConnection = new WireConnection(near, CLIENT_SIDE, log);
    late.sendJson(FrameType.Request, STATUS);
    const agentLog = new Log();
    const agent: WireConnection = new WireConnection(far, AGENT_SIDE, agentLog);
    agent.start();
    await agentLog.until(1);
    agent.sendJson(FrameType.Progress, { text: "early" });
    agent.end();
    expect(log.seen).toEqual([]);
    late.start();
    await log.until(2);
    expect(log.seen).toEqual([{ json: FrameType.Progress, value: { text: "early" } }, "end"]);
  });

  it("closes at once when it is started on a stream that is gone", async () => {
    const [near] = await socketPair();
    const log = new Log();
    near.destroy();
    new WireConnection(near, CLIENT_SIDE, log).start();
    expect(await log.closed).toBeUndefined();
    expect(log.seen).toEqual(["closed"]);
  });

  it("goes on in the other direction after one side has ended", async () => {
    const { client, agent, clientLog, agentLog } = await bothSides();
    client.end();
    await agentLog.until(1);
    expect(agentLog.seen).toEqual(["end"]);
    agent.sendJson(FrameType.Progress, { text: "still here" });
    agent.end();
    expect(await clientLog.closed).toBeUndefined();
    expect(await agentLog.closed).toBeUndefined();
    expect(clientLog.seen).toEqual([{ json: FrameType.Progress, value: { text: "still here" } }, "end", "closed"]);
    expect(agentLog.seen).toEqual(["end", "closed"]);
  });

  it("sends nothing behind its own end, and what was sent before still arrives", async () => {
    const { client, agent, clientLog, agentLog } = await bothSides();
    const total = flood(agent);
    agent.end();
    agent.sendJson(FrameType.Progress, { text: "too late" });
    agent.sendMark(FrameType.Refuse, StreamId.Upload, 0);
    agent.sendData(StreamId.Stdout, total, Buffer.from("too late"));
    agent.end();
    while (clientLog.seen.at(-1) !== "end") await clientLog.until(clientLog.seen.length + 1);
    const data = clientLog.seen.slice(0, -1).map((line) => /^data Stdout \d+ (x+)$/.exec(line as string)?.[1]?.length);
    expect(data.reduce<number>((sum, length) => sum + (length ?? Number.NaN), 0)).toBe(total);
    client.end();
    expect(await agentLog.closed).toBeUndefined();
  });

  it("pauses and goes on; frames of the chunk that has arrived are still delivered", async () => {
    const { agent, log, peer } = await agentAndSocket();
    const event = (seq: number) => encodeJsonFrame(FrameType.EventAcknowledge, { seq });
    log.onJson = function (this: Log, frame) {
      agent.pause();
      Log.prototype.onJson.call(this, frame);
    };
    peer.write(Buffer.concat([PREAMBLE, event(1), event(2)]));
    await log.until(2);
    await new Promise<void>((resolve) => peer.write(event(3), () => resolve()));
    await new Promise((resolve) => setImmediate(resolve));
    expect(log.seen).toHaveLength(2);
    agent.resume();
    await log.until(3);
    expect(log.seen[2]).toEqual({ json: FrameType.EventAcknowledge, value: { seq: 3 } });
  });

  it("reports a broken stream as a lost connection, once", async () => {
    const [near, far] = await socketPair();
    const log = new Log();
    const connection: WireConnection = new WireConnection(near, CLIENT_SIDE, log);
    connection.start();
    near.destroy(new Error("write ECONNRESET"));
    expect(await log.closed).toMatchObject({ code: "connection-lost", message: expect.stringContaining("ECONNRESET") });
    connection.fail(new RuntimeError("internal", "later"));
    connection.destroy();
    connection.end();
    await once(far.resume(), "end");
    expect(log.seen).toEqual(["closed connection-lost"]);
    expect(connection.closed).toBe(true);
  });

  it("destroys in silence", async () => {
    const { client, agent, agentLog, clientLog } = await bothSides();
    agent.sendJson(FrameType.Progress, { text: "there" });
    await clientLog.until(1);
    client.destroy();
    client.destroy();
    expect(await clientLog.closed).toBeUndefined();
    await agentLog.until(1);
    expect(agentLog.seen).toEqual(["end"]);
    expect(clientLog.seen.slice(1)).toEqual(["closed"]);
  });
});

describe("a violation", () => {
  it.each(JSON_TYPES)("frame type %i is taken from the side that sends it, and from no other", async (type) => {
    for (const { type: sampleType, value } of SAMPLES.filter((sample) => sample.type === type)) {
      for (const side of ["agent", "client"] as const) {
        const [near, peer] = await socketPair();
        const log = new Log();
        const connection: WireConnection =
          side === "agent" ? new WireConnection(near, AGENT_SIDE, log) : new WireConnection(near, CLIENT_SIDE, log);
        connection.start();
        peer.end(Buffer.concat([PREAMBLE, encodeJsonFrame(sampleType, value)]));
        await log.until(1);
        const accepted = (side === "agent" ? FROM_CLIENT : FROM_AGENT).has(type);
        if (!accepted) {
          expect(log.seen[0]).toBe("closed wire-violation");
          expect((await log.closed)?.message).toContain(`a ${FrameType[type]} frame came from the wrong side`);
        } else if (type === FrameType.Fatal) {
          expect(await log.closed).toMatchObject({ code: "wire-violation", message: "m", remedy: "r" });
        } else {
          expect(log.seen[0]).toEqual({ json: type, value });
        }
      }
    }
  });

  it.each<[string, JsonFrameType, unknown]>([
    ["an operation that does not exist", FrameType.Request, { op: "format-disk" }],
    ["no operation", FrameType.Request, {}],
    ["a request that is no object", FrameType.Request, [STATUS]],
    ["an unknown key", FrameType.Request, { ...STATUS, extra: 1 }],
    ["an unknown key further down", FrameType.Control, { seq: 1, body: { type: "signal", signal: "INT", x: 1 } }],
    ["a missing key", FrameType.Request, { op: "pause", workspaceId: "w" }],
    ["an empty workspace id", FrameType.Request, { op: "pause", workspaceId: "", runtimeInstanceId: "i" }],
    ["a long workspace id", FrameType.Request, { op: "pause", workspaceId: "w".repeat(1025), runtimeInstanceId: "i" }],
    ["a session that is none", FrameType.Request, { op: "abandon", session: "../../etc" }],
    ["a helper with a path for a name", FrameType.Request, inspection({ fileName: "../paseo-workspace-helper" })],
    ["a helper with a checksum that is none", FrameType.Request, inspection({ sha256: "../../x" })],
    ["a helper of negative size", FrameType.Request, inspection({ size: -1 })],
    ["no argv", FrameType.Request, execution({ argv: [] })],
    ["a number in the environment", FrameType.Request, execution({ env: { A: 1 } })],
    ["a terminal of half a row", FrameType.Request, execution({ stdio: { kind: "pty", rows: 0.5, cols: 80 } })],
    ["a negative offset", FrameType.Request, execution({ resume: { stdout: -1, stderr: 0, eventSeq: 0 } })],
    ["a number that is not safe", FrameType.EventAcknowledge, { seq: 2 ** 53 }],
    ["a fraction", FrameType.EventAcknowledge, { seq: 1.5 }],
    ["null", FrameType.Supply, null],
    ["a ref that could be an option", FrameType.Supply, manifest({ refs: [{ name: "--exec=x", id: "0".repeat(40) }] })],
    ["an id that is none", FrameType.Supply, manifest({ shallow: ["HEAD"] })],
    ["a Fatal with a code too long", FrameType.Fatal, { code: "x".repeat(65), message: "", remedy: "" }],
  ])("%s", async (_name, type, value) => {
    const { log, peer } = await agentAndSocket();
    peer.write(Buffer.concat([PREAMBLE, encodeJsonFrame(type, value)]));
    const frames = await framesOn(peer);
    const reason = await log.closed;
    expect(reason?.code).toBe("wire-violation");
    expect(reason?.message).toMatch(new RegExp(`a ${FrameType[type]} frame is malformed at `));
    expect(log.seen).toEqual(["closed wire-violation"]);
    expect(frames).toEqual([{ kind: "json", type: FrameType.Fatal, value: reason?.toData() }]);
  });

  it("tells the other side why, which closes with the same error", async () => {
    const { client, clientLog, agentLog } = await bothSides();
    client.sendJson(FrameType.Request, { op: "nothing" });
    const [atAgent, atClient] = await Promise.all([agentLog.closed, clientLog.closed]);
    expect(atClient?.toData()).toEqual(atAgent?.toData());
    expect(atAgent?.code).toBe("wire-violation");
    expect([agentLog.seen, clientLog.seen]).toEqual([["closed wire-violation"], ["closed wire-violation"]]);
  });

  it("delivers nothing that stands behind it, not even from the same chunk", async () => {
    const { log, peer } = await agentAndSocket();
    const status = encodeJsonFrame(FrameType.Request, STATUS);
    peer.write(Buffer.concat([PREAMBLE, status, encodeJsonFrame(FrameType.Response, {}), status]));
    peer.write(status);
    await log.closed;
    expect(log.seen).toEqual([{ json: FrameType.Request, value: STATUS }, "closed wire-violation"]);
  });

  it("delivers nothing behind a Fatal", async () => {
    const { log, peer } = await agentAndSocket();
    const fatal = encodeJsonFrame(FrameType.Fatal, { code: "cancelled", message: "m", remedy: "" });
    const status = encodeJsonFrame(FrameType.Request, STATUS);
    peer.write(Buffer.concat([PREAMBLE, fatal, status, fatal]));
    expect((await log.closed)?.code).toBe("cancelled");
    expect(log.seen).toEqual(["closed cancelled"]);
  });

  it("an error in the handler ends the connection as an internal one, without a stack", async () => {
    const { log, peer } = await agentAndSocket();
    log.onJson = () => {
      throw new TypeError("undefined is not a function");
    };
    peer.write(Buffer.concat([PREAMBLE, encodeJsonFrame(FrameType.Request, STATUS)]));
    const [frame] = await framesOn(peer);
    expect(frame).toMatchObject({
      type: FrameType.Fatal,
      value: { code: "internal", message: "Internal error: undefined is not a function" },
    });
    expect(log.seen).toEqual(["closed internal"]);
  });
});

describe("deadlines", () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it("a preamble that was begun must be finished in time", async () => {
    const { log, near, peer } = await agentAndSocket();
    peer.write(PREAMBLE.subarray(0, 3));
    await once(near, "data");
    vi.advanceTimersByTime(PREAMBLE_DEADLINE_MS / 2);
    peer.write(PREAMBLE.subarray(3, 5));
    await once(near, "data");
    vi.advanceTimersByTime(PREAMBLE_DEADLINE_MS / 2 - 1);
    expect(log.seen).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(log.seen).toEqual(["closed wire-violation"]);
    const [frame] = await framesOn(peer);
    expect(frame).toMatchObject({ type: FrameType.Fatal, value: { code: "wire-violation" } });
  });

  it("a peer that says nothing, or has said its preamble, may take its time", async () => {
    const { log, near, peer } = await agentAndSocket();
    expect(vi.getTimerCount()).toBe(0);
    peer.write(PREAMBLE.subarray(0, 3));
    await once(near, "data");
    expect(vi.getTimerCount()).toBe(1);
    peer.write(PREAMBLE.subarray(3));
    await once(near, "data");
    expect(vi.getTimerCount()).toBe(0);
    vi.advanceTimersByTime(24 * 60 * 60 * 1000);
    expect(log.seen).toEqual([]);
  });

  it("a peer that reads nothing cannot keep a connection that has failed", async () => {
    const { agent, log, near } = await agentAndSocket();
    flood(agent);
    agent.fail(new RuntimeError("internal", "over"));
    agent.fail(new RuntimeError("internal", "over again"));
    expect(log.seen).toEqual(["closed internal"]);
    vi.advanceTimersByTime(FAREWELL_DEADLINE_MS - 1);
    expect(near.destroyed).toBe(false);
    vi.advanceTimersByTime(1);
    expect(near.destroyed).toBe(true);
    await once(near, "close");
    expect(vi.getTimerCount()).toBe(0);
    expect(log.seen).toEqual(["closed internal"]);
  });
});

/** Sends more than any socket buffer takes. @returns how many bytes of data */
function flood(connection: WireConnection): number {
  const chunk = Buffer.alloc(MAX_DATA_BYTES, "x");
  for (let offset = 0; offset < 4 * STREAM_WINDOW_BYTES; offset += chunk.length) {
    connection.sendData(StreamId.Stdout, offset, chunk);
  }
  return 4 * STREAM_WINDOW_BYTES;
}

function inspection(helper: object): object {
  const valid = { sha256: "0".repeat(64), size: 1, fileName: "paseo-workspace-helper", interpreter: "none" };
  const environment = { path: [], env: {} };
  return { op: "inspect", workspaceId: "w", runtimeInstanceId: "i", environment, helper: { ...valid, ...helper } };
}

function execution(changes: object): object {
  const valid = SAMPLES.find(({ value }) => (value as { op?: string }).op === "exec")!.value;
  return { ...valid, ...changes };
}

function manifest(changes: object): object {
  const valid = SAMPLES.find(({ value }) => (value as { manifest?: { kind: string } }).manifest?.kind === "git")!;
  const { manifest } = valid.value as { manifest: object };
  return { what: "source", manifest: { ...manifest, ...changes } };
}

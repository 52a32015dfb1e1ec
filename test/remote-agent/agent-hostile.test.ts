import { randomBytes } from "node:crypto";
import { once } from "node:events";
import type { Socket } from "node:net";
import { beforeAll, describe, expect, it } from "vitest";
import type { ErrorData } from "../../src/wire/errors.ts";
import {
  encodeDataHeader,
  encodeJsonFrame,
  encodeMarkFrame,
  FrameDecoder,
  FrameType,
  PREAMBLE,
  StreamId,
} from "../../src/wire/frame.ts";
import type { CreateRequest } from "../../src/wire/from-client.ts";
import { MAX_DATA_BYTES, STREAM_WINDOW_BYTES } from "../../src/wire/limits.ts";
import { bundleProgram } from "../support/bundle.ts";
import { header, joined, Recorder } from "../wire/frames.ts";
import { AgentProcess, INSTANCE } from "./agent-process.ts";
import { ask, Client, execRequest, newSession, statusOf } from "./client.ts";

const MIB = 1024 * 1024;
/** How much an attack may make the agent grow. */
const MAX_GROWTH_BYTES = 64 * MIB;

const program = bundleProgram("remote-agent/main.ts");
/** A fresh agent for each test would cost a third of a second, and most of them may share the harm. */
let shared: AgentProcess;
beforeAll(async () => {
  const cleanUps: (() => void)[] = [];
  shared = await AgentProcess.start(program, { cleanUp: (action) => cleanUps.push(action) });
  return () => {
    for (const action of cleanUps) action();
  };
});

const status = encodeJsonFrame(FrameType.Request, { op: "status" });
const preambled = (...frames: Buffer[]) => Buffer.concat([PREAMBLE, ...frames]);

/** Writes as fast as the agent takes it, for as long as it does. */
async function pour(socket: Socket, chunks: Iterable<Buffer>): Promise<void> {
  for (const chunk of chunks) {
    if (socket.destroyed || !socket.writable) return;
    if (!socket.write(chunk)) await untilWritable(socket);
  }
}

function untilWritable(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      socket.off("drain", done).off("close", done);
      resolve();
    };
    socket.on("drain", done).on("close", done);
  });
}

/**
 * Waits for the agent to close. @returns the reason in its Fatal frame; undefined when there was none, or when it got
 * lost because more was written after the agent had closed
 */
async function fatalOn(socket: Socket): Promise<ErrorData | undefined> {
  const recorder = new Recorder();
  const decoder = new FrameDecoder(recorder);
  socket.on("data", (chunk: Buffer) => decoder.push(chunk));
  await new Promise((resolve) => socket.once("end", resolve).once("close", resolve));
  const last = joined(recorder.frames).at(-1);
  return last?.kind === "json" && last.type === FrameType.Fatal ? (last.value as ErrorData) : undefined;
}

function* repeated(chunk: Buffer, count: number): Generator<Buffer> {
  for (let sent = 0; sent < count; sent += 1) yield chunk;
}

/** After an attack: the agent lives, holds not much more than before, and serves others; nothing went uncaught. */
async function unharmed(agent: AgentProcess, before: number): Promise<void> {
  expect(await statusOf(agent)).toMatchObject({ pid: agent.pid });
  expect(agent.residentBytes - before).toBeLessThan(MAX_GROWTH_BYTES);
  expect(agent.child.exitCode).toBeNull();
  expect(agent.log).toBe("");
}

describe("a hostile client", () => {
  it.each<[string, () => Iterable<Buffer>, RegExp]>([
    ["garbage", () => [randomBytes(4096)], /magic bytes/],
    ["a banner", () => [Buffer.from("Last login: Mon Nov 30\r\n")], /magic bytes/],
    ["another version", () => [Buffer.concat([PREAMBLE.subarray(0, 7), Buffer.of(2)])], /wire version 2/],
    ["garbage behind the preamble", () => [preambled(Buffer.alloc(4096, 0xff))], /unknown frame type 255/],
    ["megabytes of garbage", () => repeated(Buffer.alloc(MIB, 0xff), 100), /magic bytes/],
    ["a request of 64 MiB", () => [preambled(header(64 * MIB, FrameType.Request))], /claims 67108864 bytes/],
    ["a request that is no JSON", () => [preambled(header(4, FrameType.Request)), Buffer.from("abcd")], /not JSON/],
    ["a request of 8 MiB without sense", () => hugeRequest("["), /is not JSON/],
    ["a request of 8 MiB with a name of 8 MiB", () => hugeRequest('{"op":"status","', '":1}'), /is malformed/],
    ["two requests", () => [preambled(status, status)], /a second request came/],
    ["data before a request", () => [preambled(data(0, "x"))], /for an execution that is not there/],
    ["an end before a request", () => [preambled(encodeMarkFrame(FrameType.End, 0, 0))], /execution that is not there/],
    [
      "an upload nobody asked for",
      () => [preambled(data(0, "x", StreamId.Upload))],
      /upload came that nobody asked for/,
    ],
    [
      "the end of such an upload",
      () => [preambled(encodeMarkFrame(FrameType.End, 3, 0))],
      /upload stream takes no such/,
    ],
    ["a supply nobody asked for", () => [preambled(json(FrameType.Supply, { what: "helper" }))], /nobody asked for/],
    ["a control before a request", () => [preambled(control(1))], /for an execution that is not there/],
    ["an acknowledgement before a request", () => [preambled(acknowledgement(1))], /execution that is not there/],
    ["a frame of the agent's", () => [preambled(json(FrameType.Progress, { text: "" }))], /from the wrong side/],
  ])("%s: is told why and closed", async (_name, chunks, message) => {
    const agent = shared;
    const before = agent.residentBytes;
    const socket = await agent.connect();
    const reason = fatalOn(socket);
    await pour(socket, chunks());
    expect(await reason).toMatchObject({ code: "wire-violation", message: expect.stringMatching(message) });
    await unharmed(agent, before);
  });

  it("half a preamble, half a header, half a request and then nothing: all may wait, nobody is held up", async () => {
    const agent = shared;
    const before = agent.residentBytes;
    const halves = [PREAMBLE.subarray(0, 4), preambled(status.subarray(0, 3)), preambled(status.subarray(0, 9))];
    const sockets = await Promise.all(halves.map(() => agent.connect()));
    for (const [index, half] of halves.entries()) sockets[index]!.write(half);
    await unharmed(agent, before);
    for (const socket of sockets) socket.destroy();
    await unharmed(agent, before);
  });

  it("200 connections that say nothing", async () => {
    const agent = shared;
    const before = agent.residentBytes;
    const sockets = await Promise.all(Array.from({ length: 200 }, () => agent.connect()));
    await unharmed(agent, before);
    for (const socket of sockets) socket.destroy();
    await unharmed(agent, before);
  });

  it("requests of 8 MiB that trickle in byte by byte", async () => {
    const agent = shared;
    const before = agent.residentBytes;
    const sockets = await Promise.all(Array.from({ length: 4 }, () => agent.connect()));
    for (const socket of sockets) socket.write(preambled(header(8 * MIB, FrameType.Request)));
    for (let sent = 0; sent < 2000; sent += 1) {
      for (const socket of sockets) socket.write(" ");
      if (sent % 10 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    await unharmed(agent, before);
    for (const socket of sockets) socket.destroy();
  });

  it("clients that go away in the middle of everything", async () => {
    const agent = shared;
    const before = agent.residentBytes;
    const create = json(FrameType.Request, createRequest());
    for (const bytes of [preambled(status), preambled(create), preambled(create.subarray(0, 20)), PREAMBLE]) {
      for (const leave of ["end", "destroy"] as const) {
        const socket = await agent.connect();
        socket.write(bytes);
        socket[leave]();
        await once(socket.resume(), "close");
      }
    }
    await unharmed(agent, before);
  });

  it("a client that is asked for a source and goes away, or sends another thing", async () => {
    const agent = shared;
    const before = agent.residentBytes;
    const gone = (await Client.open(agent)).request(createRequest());
    await gone.until(() => gone.needs.length > 0);
    gone.connection.destroy();
    const other = (await Client.open(agent)).request(createRequest());
    await other.until(() => other.needs.length > 0);
    other.connection.sendJson(FrameType.Supply, { what: "helper" });
    expect(await other.response()).toMatchObject({ kind: "error", error: { code: "wire-violation" } });
    await unharmed(agent, before);
    expect(await statusOf(agent)).toMatchObject({ workspaces: 0 });
  });

  it("an upload without end or sense: it is read or refused, and never kept", async () => {
    const agent = shared;
    const before = agent.residentBytes;
    const client = (await Client.open(agent)).request(createRequest());
    await client.until(() => client.needs.length > 0);
    client.connection.sendJson(FrameType.Supply, { what: "source", manifest: { kind: "plain" } });
    const frames = function* () {
      for (let offset = 0; offset < 100 * MIB; offset += MAX_DATA_BYTES) {
        yield encodeDataHeader(StreamId.Upload, offset, MAX_DATA_BYTES);
        yield Buffer.alloc(MAX_DATA_BYTES, "no archive ");
      }
    };
    await pour(client.socket, frames());
    expect(agent.residentBytes - before).toBeLessThan(MAX_GROWTH_BYTES);
    client.connection.end();
    await client.end();
    client.connection.destroy();
    await unharmed(agent, before);
    expect(await statusOf(agent)).toMatchObject({ workspaces: 0 });
  });
});

describe("a hostile client of an execution", () => {
  it("early frames for an execution that is refused in the end are dropped", async () => {
    const agent = shared;
    const before = agent.residentBytes;
    const client = await Client.open(agent);
    client.request(execRequest("no-such-workspace", ["/bin/cat"]));
    for (let seq = 1; seq <= 5000; seq += 1) client.connection.sendJson(FrameType.EventAcknowledge, { seq });
    for (let offset = 0; offset < 5000; offset += 1) client.connection.sendData(0, offset, Buffer.of(1));
    expect(await client.response()).toMatchObject({ kind: "error", error: { code: "workspace-missing" } });
    expect(await client.end()).toBeUndefined();
    client.connection.destroy();
    await unharmed(agent, before);
  });

  it("thousands of small early writes of an honest client all arrive", async () => {
    const agent = await AgentProcess.start(program);
    const client = await Client.open(agent);
    client.request(execRequest(agent.addWorkspace(), ["/usr/bin/wc", "-c"]));
    for (let offset = 0; offset < 20_000; offset += 1) client.connection.sendData(StreamId.Stdin, offset, Buffer.of(1));
    client.connection.sendMark(FrameType.End, StreamId.Stdin, 20_000);
    expect(await client.event("exit")).toEqual({ type: "exit", code: 0, signal: null });
    expect(client.output().toString()).toBe("20000\n");
  });

  it("more input than the window, into a program that reads nothing", async () => {
    const agent = await AgentProcess.start(program);
    const before = agent.residentBytes;
    const socket = await agent.connect();
    const reason = fatalOn(socket);
    const request = execRequest(agent.addWorkspace(), ["/bin/sleep", "60"], { reconnectWindowMs: 50 });
    const flood = function* () {
      yield preambled(json(FrameType.Request, request));
      for (let offset = 0; offset < 100 * MIB; offset += MAX_DATA_BYTES) {
        yield encodeDataHeader(StreamId.Stdin, offset, MAX_DATA_BYTES);
        yield Buffer.alloc(MAX_DATA_BYTES);
      }
    };
    await pour(socket, flood());
    expect((await reason)?.message ?? "lost").toMatch(/more than a window of bytes in flight|lost/);
    await unharmed(agent, before);
  });

  it("output that nobody reads or acknowledges holds the program up, and nothing grows", async () => {
    const agent = await AgentProcess.start(program);
    const before = agent.residentBytes;
    const client = (await Client.open(agent)).request(execRequest(agent.addWorkspace(), ["/usr/bin/yes"]));
    await client.event("started");
    await client.until(() => client.output().length > 0);
    client.socket.pause();
    const other = (await Client.open(agent)).request(execRequest(agent.addWorkspace(), ["/usr/bin/yes"]));
    await other.until(() => other.output().length > 0);
    // What has come by now is all that ever comes without an acknowledgement.
    let last = -1;
    while (other.output().length !== last) {
      last = other.output().length;
      await statusOf(agent);
      await statusOf(agent);
    }
    expect(last).toBeLessThanOrEqual(STREAM_WINDOW_BYTES + MAX_DATA_BYTES);
    await unharmed(agent, before);
  });

  it.each<[string, (client: Client) => void, RegExp]>([
    ["data on an output", (client) => client.connection.sendData(1, 0, Buffer.of(1)), /takes no data on stream Stdout/],
    ["a gap in its input", (client) => client.connection.sendData(0, 5, Buffer.of(1)), /jumps from 0 to 5/],
    ["an end elsewhere", (client) => client.connection.sendMark(FrameType.End, 0, 7), /ends at 7, but 0 bytes/],
    ["an end of an output", (client) => client.connection.sendMark(FrameType.End, 1, 0), /End does not apply/],
    ["a refusal of its input", (client) => client.connection.sendMark(FrameType.Refuse, 0, 0), /Refuse does not apply/],
    [
      "an acknowledgement of what never came",
      (client) => client.connection.sendMark(17, 1, 99),
      /acknowledged up to 99/,
    ],
    ["an event that never came", (client) => client.connection.sendJson(7, { seq: 99 }), /message 99 is acknowledged/],
    [
      "a control out of turn",
      (client) => client.connection.sendJson(8, controlValue(3)),
      /message 3 follows message 0/,
    ],
  ])("%s ends the connection, not the agent", async (_name, misbehave, message) => {
    const agent = shared;
    const before = agent.residentBytes;
    const request = execRequest(agent.addWorkspace(), ["/bin/cat"], { reconnectWindowMs: 20 });
    const client = (await Client.open(agent)).request(request);
    await client.event("started");
    misbehave(client);
    expect(await client.end()).toMatchObject({ code: "wire-violation", message: expect.stringMatching(message) });
    await unharmed(agent, before);
    // The workload does not outlive a client that does not come back.
    while ((await statusOf(agent)).executions > 0) await new Promise((resolve) => setTimeout(resolve, 10));
  });

  it("takes over nobody else's execution, nor the same id again", async () => {
    const agent = shared;
    const before = agent.residentBytes;
    const request = execRequest(agent.addWorkspace(), ["/bin/cat"]);
    const client = (await Client.open(agent)).request(request);
    await client.event("started");
    await expect(ask(agent, { ...request, session: newSession() })).rejects.toMatchObject({ code: "exec-id-reused" });
    await expect(
      ask(agent, { ...request, session: newSession(), resume: { stdout: 0, stderr: 0, eventSeq: 0 } }),
    ).rejects.toMatchObject({ code: "execution-lost" });
    await expect(ask(agent, { ...request, session: newSession(), runtimeInstanceId: "another" })).rejects.toMatchObject(
      { code: "workspace-owned-elsewhere" },
    );
    client.connection.sendData(StreamId.Stdin, 0, Buffer.from("mine\n"));
    await client.until(() => client.output().toString() === "mine\n");
    await unharmed(agent, before);
  });
});

function json(type: FrameType.Supply | FrameType.Request | FrameType.Progress, value: object): Buffer {
  return encodeJsonFrame(type, value);
}

function data(offset: number, text: string, stream = StreamId.Stdin): Buffer {
  return Buffer.concat([encodeDataHeader(stream, offset, text.length), Buffer.from(text)]);
}

const controlValue = (seq: number) => ({ seq, body: { type: "signal", signal: "SIGWINCH" } });
const control = (seq: number) => encodeJsonFrame(FrameType.Control, controlValue(seq));
const acknowledgement = (seq: number) => encodeJsonFrame(FrameType.EventAcknowledge, { seq });

function* hugeRequest(begin: string, end = ""): Generator<Buffer> {
  yield preambled(header(8 * MIB, FrameType.Request));
  yield Buffer.from(begin.padEnd(8 * MIB - end.length, "x") + end);
}

function createRequest(): CreateRequest {
  return {
    op: "create",
    session: newSession(),
    workspaceId: `created-${randomBytes(4).toString("hex")}`,
    runtimeInstanceId: INSTANCE,
    source: { kind: "directory", key: "key", label: "/somewhere" },
    placement: { kind: "existing" },
    environment: { path: [], env: {} },
  };
}

import { type ChildProcess, spawn } from "node:child_process";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { Execution } from "../../remote-agent/execution.ts";
import { sendSignal } from "../../remote-agent/processes.ts";
import type { OutputName, Workload, WorkloadEvents } from "../../remote-agent/workload.ts";
import { WireConnection } from "../../src/wire/connection.ts";
import { RuntimeError } from "../../src/wire/errors.ts";
import { FrameType, type MarkFrameType, StreamId } from "../../src/wire/frame.ts";
import { AGENT_SIDE, type ClientFrame } from "../../src/wire/from-client.ts";
import { MESSAGE_WINDOW, STREAM_WINDOW_BYTES } from "../../src/wire/limits.ts";
import { socketPair } from "../support/socket-pair.ts";
import { Client, execRequest } from "./client.ts";

/** A workload that does what a test says, around a process that only waits. */
class ScriptedWorkload implements Workload {
  readonly outputs = ["stdout", "stderr"] as const;
  readonly child: ChildProcess;
  readonly events: WorkloadEvents;
  readonly log: string[] = [];
  onResize: () => void = () => {};

  constructor(events: WorkloadEvents) {
    this.child = spawn("/bin/sleep", ["60"], { detached: true, stdio: "ignore" });
    this.events = events;
    this.child.once("exit", (code, signal) => events.onExit({ code, signal }));
    onTestFinished(() => {
      sendSignal(this.pid, "SIGKILL");
    });
  }

  get pid(): number {
    return this.child.pid!;
  }

  write(bytes: Buffer, onWritten: () => void): void {
    this.log.push(`input ${bytes}`);
    onWritten();
  }

  endInput(): void {
    this.log.push("input ends");
  }

  pauseOutput(output: OutputName): void {
    this.log.push(`pause ${output}`);
  }

  resumeOutput(output: OutputName): void {
    this.log.push(`resume ${output}`);
  }

  closeOutput(output: OutputName): void {
    this.log.push(`close ${output}`);
    this.events.onOutputEnd(output);
  }

  drainOutput(output: OutputName): void {
    this.log.push(`drain ${output}`);
  }

  resize(): void {
    this.onResize();
  }

  /** Both outputs end and the process is gone. */
  finish(): void {
    for (const output of this.outputs) this.events.onOutputEnd(output);
    this.child.removeAllListeners("exit");
    this.events.onExit({ code: 0, signal: null });
  }
}

interface Setting {
  execution: Execution;
  workload: ScriptedWorkload;
  /** How often the end of the process, and the delivery of everything, was reported. */
  told: { ended: number; delivered: number };
  /** Opens a link and attaches to it, as a first request or as one that resumes. */
  link(resume?: { stdout: number; stderr: number; eventSeq: number }): Promise<Client>;
}

function setting(reconnectWindowMs = 60_000): Setting {
  const told = { ended: 0, delivered: 0 };
  let workload: ScriptedWorkload | undefined;
  const execution = new Execution(
    execRequest("w", ["x"], { reconnectWindowMs }),
    (events) => {
      workload = new ScriptedWorkload(events);
      return workload;
    },
    undefined,
    () => {
      told.ended += 1;
    },
    () => {
      told.delivered += 1;
    },
  );
  execution.announceStarted();
  return {
    execution,
    workload: workload!,
    told,
    link: async (resume) => {
      const [near, far] = await socketPair();
      const connection = new WireConnection(far, AGENT_SIDE, {
        onJson: (frame: ClientFrame) => {
          if (frame.type === FrameType.Control) execution.onControl(frame.value.seq, frame.value.body);
          else if (frame.type === FrameType.EventAcknowledge) execution.onEventAcknowledged(frame.value.seq);
        },
        onData: (stream: StreamId, offset: number, chunk: Buffer) => execution.onData(stream, offset, chunk),
        onMark: (type: MarkFrameType, stream: StreamId, offset: number) => execution.onMark(type, stream, offset),
        onEnd: () => execution.detach(connection),
        onClose: () => execution.detach(connection),
      }) as WireConnection;
      const client = new Client(near);
      execution.attach(connection, resume);
      connection.start();
      await client.response();
      return client;
    },
  };
}

/** For what arrives over a link of this process, without anything that tells of it. */
async function turnsUntil(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setImmediate(resolve));
}

describe("an execution", () => {
  it("goes on over a second link where the first one broke", async () => {
    const { workload, link, told } = setting();
    const first = await link();
    await first.event("started");
    first.connection.sendData(StreamId.Stdin, 0, Buffer.from("ab"));
    workload.events.onOutput("stdout", Buffer.from("one "));
    await first.until(() => first.output().toString() === "one ");
    first.socket.destroy();
    workload.events.onOutput("stdout", Buffer.from("two "));
    const second = await link({ stdout: 4, stderr: 0, eventSeq: 1 });
    expect(second.responses[0]).toEqual({ kind: "attached", stdin: 2, controlSeq: 0 });
    second.connection.sendData(StreamId.Stdin, 1, Buffer.from("bc"));
    workload.events.onOutput("stdout", Buffer.from("three"));
    await turnsUntil(() => workload.log.length === 2);
    workload.finish();
    expect(await second.event("exit")).toEqual({ type: "exit", code: 0, signal: null });
    expect(second.output().toString()).toBe("two three");
    expect(workload.log).toEqual(["input ab", "input c"]);
    expect(told).toEqual({ ended: 1, delivered: 0 });
    second.connection.sendJson(FrameType.EventAcknowledge, { seq: 2 });
    await second.end();
    expect(told).toEqual({ ended: 1, delivered: 1 });
  });

  it("drops the first link when a second one comes before its loss was noticed", async () => {
    const { workload, link } = setting();
    const first = await link();
    const second = await link({ stdout: 0, stderr: 0, eventSeq: 0 });
    await first.end();
    workload.events.onOutput("stderr", Buffer.from("here"));
    await second.until(() => second.output(StreamId.Stderr).toString() === "here");
    expect(first.output(StreamId.Stderr)).toHaveLength(0);
  });

  it("keeps its exit until the client says that it is done with it", async () => {
    const { workload, link, told, execution } = setting();
    const first = await link();
    workload.events.onOutput("stdout", Buffer.from("tail"));
    workload.finish();
    await first.event("exit");
    first.socket.destroy();
    const second = await link({ stdout: 0, stderr: 0, eventSeq: 1 });
    expect(await second.event("exit")).toEqual({ type: "exit", code: 0, signal: null });
    expect(second.output().toString()).toBe("tail");
    expect(execution.state).toBe("exited");
    expect(told.delivered).toBe(0);
  });

  it("holds its workload up when the window is full, and lets it go on with the acknowledgement", async () => {
    const { workload, link } = setting();
    const client = await link();
    const chunk = Buffer.alloc(64 * 1024);
    for (let sent = 0; sent < STREAM_WINDOW_BYTES; sent += chunk.length) workload.events.onOutput("stdout", chunk);
    expect(workload.log).toEqual(["pause stdout"]);
    // The other output is not held up with it.
    workload.events.onOutput("stderr", Buffer.from("x"));
    await client.until(() => client.output(StreamId.Stderr).length === 1);
    await client.until(() => client.output().length > 0);
    client.connection.sendMark(FrameType.Acknowledge, StreamId.Stdout, client.output().length);
    await turnsUntil(() => workload.log.length === 2);
    expect(workload.log).toEqual(["pause stdout", "resume stdout"]);
  });

  it("is forgotten when it was abandoned, once its process is gone", async () => {
    const { execution, workload, told } = setting();
    const exited = new Promise((resolve) => workload.child.once("exit", resolve));
    execution.abandon();
    await exited;
    for (const output of workload.outputs) workload.events.onOutputEnd(output);
    expect(told).toEqual({ ended: 1, delivered: 1 });
    execution.abandon();
    expect(told).toEqual({ ended: 1, delivered: 1 });
  });

  it("is ended and forgotten when nobody comes back within the window", async () => {
    const { workload, told, link, execution } = setting(30);
    const client = await link();
    const exited = new Promise((resolve) => workload.child.once("exit", resolve));
    client.socket.destroy();
    await exited;
    for (const output of workload.outputs) workload.events.onOutputEnd(output);
    expect(told.delivered).toBe(1);
    expect(execution.attached).toBe(false);
  });

  it("takes each control once, and ends with an error on one that fails", async () => {
    const { workload, link } = setting();
    const resized: number[] = [];
    workload.onResize = () => {
      resized.push(resized.length);
      if (resized.length > 1) throw new RuntimeError("control-invalid", "No such size", "");
    };
    const client = await link();
    const control = (seq: number) => ({ seq, body: { type: "resize", id: 10 + seq, rows: 1, cols: 1 } });
    client.connection.sendJson(FrameType.Control, control(1));
    client.connection.sendJson(FrameType.Control, control(1));
    expect(await client.event("resized")).toEqual({ type: "resized", id: 11 });
    client.connection.sendJson(FrameType.Control, control(2));
    expect(await client.event("error")).toMatchObject({ error: { code: "control-invalid" } });
    await client.until(() => client.controlAcknowledgements.length === 2);
    expect(resized).toHaveLength(2);
    expect(workload.child.pid).toBeDefined();
    await vi.waitFor(() => expect(workload.child.signalCode).toBe("SIGHUP"), { interval: 5, timeout: 5000 });
  });

  it("turns a failure that is a bug of ours into an error of the execution, too", async () => {
    const { workload, link } = setting();
    workload.onResize = () => {
      throw new Error("ioctl(2) failed, EBADF");
    };
    const client = await link();
    client.connection.sendJson(FrameType.Control, { seq: 1, body: { type: "resize", id: 1, rows: 1, cols: 1 } });
    expect(await client.event("error")).toMatchObject({
      error: { code: "internal", message: "Internal error: ioctl(2) failed, EBADF" },
    });
  });

  it("ends the link of a client that sends controls without end and acknowledges no event", async () => {
    const { link } = setting();
    const client = await link();
    const body = { type: "resize", id: 1, rows: 1, cols: 1 };
    for (let seq = 1; seq <= 50 * MESSAGE_WINDOW; seq += 1)
      client.connection.sendJson(FrameType.Control, { seq, body });
    expect(await client.end()).toMatchObject({
      code: "wire-violation",
      message: expect.stringContaining("events are not acknowledged"),
    });
    expect(client.events.length).toBeLessThanOrEqual(MESSAGE_WINDOW);
  });

  it("takes a burst of controls from a client that acknowledges its events", async () => {
    const { workload, link } = setting();
    let resizes = 0;
    workload.onResize = () => {
      resizes += 1;
    };
    const client = await link();
    const total = 10 * MESSAGE_WINDOW;
    let sent = 0;
    for (
      let events = 0;
      resizes < total || client.controlAcknowledgements.length < total;
      events = client.events.length
    ) {
      while (sent < total && sent - client.controlAcknowledgements.length < MESSAGE_WINDOW) {
        sent += 1;
        client.connection.sendJson(FrameType.Control, {
          seq: sent,
          body: { type: "resize", id: sent, rows: 1, cols: 1 },
        });
      }
      await client.until(() => client.events.length > events || client.controlAcknowledgements.length === total);
      client.connection.sendJson(FrameType.EventAcknowledge, { seq: client.events.at(-1)!.seq });
    }
    expect(resizes).toBe(total);
    expect(client.events.map(({ seq }) => seq)).toEqual(Array.from({ length: total + 1 }, (_, index) => index + 1));
  });
});

import type { WireConnection } from "../src/wire/connection.ts";
import { type ErrorData, RuntimeError } from "../src/wire/errors.ts";
import { FrameType, type MarkFrameType, StreamId, violation } from "../src/wire/frame.ts";
import type { WireEvent } from "../src/wire/from-agent.ts";
import type { ExecRequest, WireControl } from "../src/wire/from-client.ts";
import { heartbeatMs, MESSAGE_WINDOW, MISSED_HEARTBEATS } from "../src/wire/limits.ts";
import { IncomingMessages, IncomingStream, OutgoingMessages, OutgoingStream } from "../src/wire/streams.ts";
import type { ControlGroup } from "./control-groups.ts";
import { ProcessTree } from "./process-tree.ts";
import { startTimeOf } from "./processes.ts";
import { signalNumber } from "./signals.ts";
import type { Exit, OutputName, Workload, WorkloadEvents } from "./workload.ts";

/** How long output may follow the end of a process, in ms, when something it left behind holds a pipe open. */
export const LINGER_MS = 2000;
/** More than any pipe or socket holds: what comes after so many bytes was not written by a process that has ended. */
const BEYOND_PIPE_BYTES = 8 * 1024 * 1024;
/**
 * How long this side of a connection stays open when the other has ended, in ms: for the broker an early end would mean
 * that the execution is done. Later it has to be closed, for Node does not tell when the other side goes away for good.
 */
const HALF_OPEN_MS = 5000;
/** Time between HUP and KILL, in ms, when a workload has to end. */
export const TERMINATION_GRACE_MS = 2000;
/** How long KILL may take until processes are gone, in ms; only a process stuck in the kernel takes longer. */
const KILL_LIMIT_MS = 5000;

export type ExecutionState = "live" | "exited" | "delivered";

/**
 * One execution: a workload, its streams with offsets, and at most one connection to the client at a time. The
 * workload does not notice when the connection changes.
 */
export class Execution {
  readonly workspaceId: string;
  readonly execId: string;
  readonly session: string;
  readonly processes: ProcessTree;
  readonly #workload: Workload;
  readonly #reconnectWindowMs: number;
  readonly #onEnded: () => void;
  readonly #onDelivered: () => void;

  readonly #stdin = new IncomingStream(StreamId.Stdin);
  readonly #outputs: Record<OutputName, OutgoingStream> = {
    stdout: new OutgoingStream(StreamId.Stdout),
    stderr: new OutgoingStream(StreamId.Stderr),
  };
  readonly #events = new OutgoingMessages<WireEvent>(FrameType.Event);
  readonly #controls = new IncomingMessages();

  #connection: WireConnection | undefined;
  #state: ExecutionState = "live";
  #exit: Exit | undefined;
  #windowTimer: NodeJS.Timeout | undefined;
  #silenceTimer: NodeJS.Timeout | undefined;
  #lingerTimer: NodeJS.Timeout | undefined;
  #abandoned = false;
  /** Outputs that could not be read all the time since the timer above was set. */
  readonly #heldUp = new Set<OutputName>();
  /** Bytes of each output that have come since the process ended. */
  readonly #late: Record<OutputName, number> = { stdout: 0, stderr: 0 };

  /**
   * @param launch starts the workload and reports through the events it is given
   * @param group its control group, where there are any
   * @param onEnded the process has ended; its record can be closed
   * @param onDelivered the client has everything, or will never come back: this object can be forgotten
   */
  constructor(
    request: ExecRequest,
    launch: (events: WorkloadEvents) => Workload,
    group: ControlGroup | undefined,
    onEnded: () => void,
    onDelivered: () => void,
  ) {
    this.workspaceId = request.workspaceId;
    this.execId = request.execId;
    this.session = request.session;
    this.#reconnectWindowMs = request.reconnectWindowMs;
    this.#onEnded = onEnded;
    this.#onDelivered = onDelivered;
    this.#workload = launch({
      onOutput: (output, bytes) => this.#onOutput(output, bytes),
      onOutputEnd: (output) => this.#onOutputEnd(output),
      onExit: (exit) => this.#onExit(exit),
      onInputClosed: () => this.#stdin.refuse(),
    });
    const { pid } = this.#workload;
    this.processes = new ProcessTree({ pid, startTime: startTimeOf(pid) ?? "" }, group);
    for (const output of ["stdout", "stderr"] as const) {
      const stream = this.#outputs[output];
      if (this.#workload.outputs.includes(output)) {
        stream.onWritable = () => this.#workload.resumeOutput(output);
        stream.onRefused = () => this.#workload.closeOutput(output);
      } else {
        stream.finish();
      }
    }
    this.#events.onAcknowledged = () => this.#checkDelivered();
  }

  get state(): ExecutionState {
    return this.#state;
  }

  get attached(): boolean {
    return this.#connection !== undefined;
  }

  /** The live record is on disk: from now on `signal` finds this execution. */
  announceStarted(): void {
    this.#events.push({ type: "started" });
  }

  /**
   * Speaks over this connection from now on; an earlier one is dropped.
   * @param resume what the client has, absent when it has nothing yet
   */
  attach(connection: WireConnection, resume: ExecRequest["resume"]): void {
    this.#connection?.destroy();
    this.#connection = connection;
    clearTimeout(this.#windowTimer);
    this.#silenceTimer = setTimeout(
      () => this.#connection?.destroy(),
      MISSED_HEARTBEATS * heartbeatMs(this.#reconnectWindowMs),
    );
    connection.sendJson(FrameType.Response, {
      kind: "attached",
      stdin: this.#stdin.received,
      controlSeq: this.#controls.lastSeq,
    });
    this.#stdin.attach(connection);
    this.#events.attach(connection, resume?.eventSeq ?? 0);
    this.#outputs.stdout.attach(connection, resume?.stdout ?? 0);
    this.#outputs.stderr.attach(connection, resume?.stderr ?? 0);
  }

  /** The connection is gone: the workload goes on until its outputs are full, and is ended when nobody comes back. */
  detach(connection: WireConnection): void {
    if (this.#connection !== connection) return;
    this.#connection = undefined;
    setTimeout(() => connection.destroy(), HALF_OPEN_MS);
    clearTimeout(this.#silenceTimer);
    this.#silenceTimer = undefined;
    this.#stdin.detach();
    this.#events.detach();
    this.#outputs.stdout.detach();
    this.#outputs.stderr.detach();
    if (this.#state === "delivered") return;
    this.#windowTimer = setTimeout(() => this.abandon(), this.#reconnectWindowMs);
  }

  onData(stream: StreamId, offset: number, chunk: Buffer): void {
    this.#silenceTimer?.refresh();
    if (stream !== StreamId.Stdin) throw violation(`an execution takes no data on stream ${StreamId[stream]}`);
    const fresh = this.#stdin.accept(offset, chunk);
    if (fresh !== undefined) this.#workload.write(fresh, () => this.#stdin.consume(fresh.length));
  }

  onMark(type: MarkFrameType, stream: StreamId, offset: number): void {
    this.#silenceTimer?.refresh();
    if (stream === StreamId.Stdin && type === FrameType.End) {
      this.#stdin.end(offset);
      if (this.#stdin.complete) this.#workload.endInput();
      return;
    }
    const output =
      stream === StreamId.Stdout ? this.#outputs.stdout : stream === StreamId.Stderr ? this.#outputs.stderr : undefined;
    if (output === undefined || type === FrameType.End)
      throw violation(`${FrameType[type]} does not apply to stream ${StreamId[stream]}`);
    if (type === FrameType.Refuse) output.refuse();
    else output.acknowledge(offset);
  }

  onControl(seq: number, control: WireControl): void {
    this.#silenceTimer?.refresh();
    // Each control has one event at most, and a client that takes no events is sent no further ones.
    if (this.#events.unacknowledged > 2 * MESSAGE_WINDOW) throw violation("events are not acknowledged");
    if (!this.#controls.accept(seq)) return;
    try {
      this.#applyControl(control);
    } catch (error) {
      this.#events.push({ type: "error", error: RuntimeError.from(error).toData() });
      void this.terminate();
    }
    this.#connection?.sendJson(FrameType.ControlAcknowledge, { seq });
  }

  /** Also a client's heartbeat. */
  onEventAcknowledged(seq: number): void {
    this.#silenceTimer?.refresh();
    this.#events.acknowledge(seq);
  }

  #applyControl(control: WireControl): void {
    if (this.#state !== "live") return;
    switch (control.type) {
      case "resize":
        this.#workload.resize(control.rows, control.cols);
        this.#events.push({ type: "resized", id: control.id });
        return;
      case "signal":
        this.signalGroup(control.signal);
        return;
    }
  }

  /**
   * Sends a signal to the process group.
   * @throws RuntimeError signal-unknown
   */
  signalGroup(signal: string): void {
    const number = signalNumber(signal);
    if (this.#state === "live") this.processes.signalGroup(number);
  }

  /**
   * The contract's `signal`: sends it and waits until nothing of this execution is left.
   * @param limitMs how long to wait
   * @returns whether everything is gone
   */
  async signalAndWait(signal: string, limitMs: number): Promise<boolean> {
    const number = signalNumber(signal);
    if (this.#state !== "live") return true;
    if (number === signalNumber("SIGKILL")) return await this.processes.kill(limitMs);
    this.processes.look();
    this.processes.signalGroup(number);
    return await this.processes.gone(limitMs);
  }

  /** Ends the workload: HUP to the group, a grace period, then KILL to everything that belongs to it. */
  async terminate(): Promise<void> {
    // When it has ended already, another group may have its number by now.
    if (this.processes.look().length === 0) return;
    this.processes.signalGroup("SIGHUP");
    // A stopped process takes a signal only when it goes on.
    this.processes.signalGroup("SIGCONT");
    if (!(await this.processes.gone(TERMINATION_GRACE_MS))) await this.processes.kill(KILL_LIMIT_MS);
  }

  /** The client will not come back: ends the workload and drops what it has not fetched. */
  abandon(): void {
    this.#abandoned = true;
    clearTimeout(this.#windowTimer);
    this.#connection?.destroy();
    this.#connection = undefined;
    for (const output of ["stdout", "stderr"] as const) {
      // Not closed, for a SIGPIPE would cut short what the workload does about its hang-up.
      this.#outputs[output].onRefused = () => this.#workload.drainOutput(output);
      this.#outputs[output].refuse();
    }
    if (this.#state === "live") void this.terminate();
    else this.#deliver();
  }

  /** Fails the execution for the client, whatever the workload does. */
  fail(error: ErrorData): void {
    this.#events.push({ type: "error", error });
  }

  #onOutput(output: OutputName, bytes: Buffer): void {
    const stream = this.#outputs[output];
    stream.write(bytes);
    if (this.#exit !== undefined) this.#late[output] += bytes.length;
    if (!stream.full) return;
    this.#heldUp.add(output);
    this.#workload.pauseOutput(output);
  }

  #onOutputEnd(output: OutputName): void {
    this.#outputs[output].finish();
    this.#checkExited();
  }

  #onExit(exit: Exit): void {
    this.#exit = exit;
    this.#onEnded();
    this.#stdin.refuse();
    this.#checkExited();
    if (this.#state === "live") this.#watchLingering();
  }

  /**
   * Something that the process left behind may hold its outputs open; they are given up after a bound, unharmed. What is
   * in the pipe belongs to the process that has ended, so an output that a slow reader holds up is waited for, until
   * everything that the process can have written has come.
   */
  #watchLingering(): void {
    this.#heldUp.clear();
    this.#lingerTimer = setTimeout(() => {
      for (const output of this.#workload.outputs) {
        const stream = this.#outputs[output];
        const heldUp = stream.full || this.#heldUp.has(output);
        if (stream.finished || (heldUp && this.#late[output] < BEYOND_PIPE_BYTES)) continue;
        this.#workload.drainOutput(output);
        this.#onOutputEnd(output);
      }
      if (this.#state === "live") this.#watchLingering();
    }, LINGER_MS);
  }

  #checkExited(): void {
    if (this.#exit === undefined || this.#state !== "live") return;
    if (!this.#outputs.stdout.finished || !this.#outputs.stderr.finished) return;
    clearTimeout(this.#lingerTimer);
    this.#state = "exited";
    this.#events.push({ type: "exit", ...this.#exit });
    if (this.#abandoned) this.#deliver();
  }

  #checkDelivered(): void {
    if (this.#state === "exited" && this.#events.settled) this.#deliver();
  }

  #deliver(): void {
    if (this.#state === "delivered") return;
    this.#state = "delivered";
    clearTimeout(this.#windowTimer);
    this.#connection?.end();
    this.#onDelivered();
  }
}

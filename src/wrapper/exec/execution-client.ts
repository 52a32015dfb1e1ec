import type { Socket } from "node:net";
import { type ConnectionHandler, WireConnection } from "../../wire/connection.ts";
import { RuntimeError } from "../../wire/errors.ts";
import { FrameType, type MarkFrameType, StreamId, violation } from "../../wire/frame.ts";
import { type AgentFrame, CLIENT_SIDE, type WireEvent } from "../../wire/from-agent.ts";
import type { ExecRequest, WireControl } from "../../wire/from-client.ts";
import { heartbeatMs, MESSAGE_WINDOW } from "../../wire/limits.ts";
import { IncomingMessages, IncomingStream, OutgoingMessages, OutgoingStream } from "../../wire/streams.ts";
import type { RuntimeContext } from "../context.ts";
import { dial } from "../dial.ts";

/** Links lost in a row without an answer after which an execution fails. */
const MAX_FRUITLESS_LINKS = 10;
const FRUITLESS_WAIT_MS = 100;
/** Faults with which a reconnect ends when its time is up; any other one says more by itself. */
const RECONNECT_FAULTS: ReadonlySet<string> = new Set([
  "connection-failed",
  "connection-lost",
  "connection-refused",
  "connection-timeout",
  "host-unknown",
]);

export type OutputName = "stdout" | "stderr";

export interface ExecutionEvents {
  onStarted(): void;
  onResized(id: number): void;
  /** New bytes of an output. Call `consumed` with their number when the operating system has them. */
  onOutput(output: OutputName, bytes: Buffer): void;
  /** The workload has closed this output; called once. */
  onOutputEnd(output: OutputName): void;
  /** Everything of both outputs has been consumed, and the workload has ended. Called once, last. */
  onExit(code: number | null, signal: string | null): void;
  /** The execution has failed. Called once, last. */
  onFailed(error: RuntimeError): void;
  /** Input may be written again. */
  onInputWritable(): void;
  /** The agent has taken controls. */
  onControlsAcknowledged(): void;
  /** The workload takes no more input. */
  onInputRefused(): void;
}

/**
 * One execution as this side sees it. It outlives its connections: when one is lost, the next one takes the streams up
 * at the byte where they were.
 */
export class ExecutionClient {
  readonly #context: RuntimeContext;
  readonly #request: Omit<ExecRequest, "resume">;
  readonly #events: ExecutionEvents;
  readonly #stdin = new OutgoingStream(StreamId.Stdin);
  readonly #outputs: Record<OutputName, IncomingStream> = {
    stdout: new IncomingStream(StreamId.Stdout),
    stderr: new IncomingStream(StreamId.Stderr),
  };
  readonly #controls = new OutgoingMessages<WireControl>(FrameType.Control);
  readonly #received = new IncomingMessages();
  #connection: WireConnection | undefined;
  /** The agent has said that it has the execution: a later connection resumes it and never starts it anew. */
  #attached = false;
  #exit: Extract<WireEvent, { type: "exit" }> | undefined;
  #exitSeq = 0;
  /** Number of the last event that the agent may forget. */
  #acknowledgedSeq = 0;
  #finished = false;

  constructor(context: RuntimeContext, request: Omit<ExecRequest, "resume">, events: ExecutionEvents) {
    this.#context = context;
    this.#request = request;
    this.#events = events;
    this.#stdin.onWritable = () => events.onInputWritable();
    this.#stdin.onRefused = () => events.onInputRefused();
    this.#controls.onAcknowledged = () => events.onControlsAcknowledged();
  }

  /** So many controls are on their way, or wait for a link, that no more should be read. */
  get controlsFull(): boolean {
    return this.#controls.unacknowledged >= MESSAGE_WINDOW;
  }

  get inputFull(): boolean {
    return this.#stdin.full;
  }

  writeInput(bytes: Buffer): void {
    this.#stdin.write(bytes);
  }

  endInput(): void {
    this.#stdin.finish();
  }

  control(control: WireControl): void {
    this.#controls.push(control);
  }

  consumed(output: OutputName, count: number): void {
    this.#outputs[output].consume(count);
    this.#checkFinished();
  }

  refuseOutput(output: OutputName): void {
    this.#outputs[output].refuse();
    this.#checkFinished();
  }

  /** Makes the first connection and keeps the execution connected until it has ended. */
  async run(): Promise<void> {
    const beat = () => this.#acknowledgeEvents(this.#acknowledgedSeq);
    setInterval(beat, heartbeatMs(this.#request.reconnectWindowMs)).unref();
    let lostAt: number | undefined;
    let fruitless = 0;
    while (!this.#finished) {
      try {
        const link = await this.#connect(lostAt);
        const reason = await link.lost;
        if (reason !== undefined && reason.code !== "connection-lost") throw reason;
        // A link that is lost before the agent has answered on it may be lost again the same way, without end.
        fruitless = link.answered ? 0 : fruitless + 1;
        if (fruitless >= MAX_FRUITLESS_LINKS) throw reason ?? lostAgain();
        if (fruitless > 1) await new Promise((resolve) => setTimeout(resolve, FRUITLESS_WAIT_MS * fruitless));
        if (link.answered || lostAt === undefined) lostAt = Date.now();
      } catch (error) {
        this.#fail(this.#explain(RuntimeError.from(error), lostAt));
      }
    }
  }

  async #connect(lostAt: number | undefined): Promise<Link> {
    const link = new Link(this);
    let connection: WireConnection | undefined;
    const patience =
      lostAt === undefined ? {} : { patienceMs: Math.max(1, lostAt + this.#request.reconnectWindowMs - Date.now()) };
    const { early } = await dial(
      {
        type: "dial",
        options: this.#context.rawOptions,
        caller: this.#context.caller,
        session: this.#request.session,
        ...patience,
      },
      (opened: Socket) => {
        connection = new WireConnection(opened, CLIENT_SIDE, link);
        connection.sendJson(FrameType.Request, this.#requestNow());
        if (!this.#attached) {
          this.#controls.attach(connection, 0);
          this.#stdin.attach(connection, 0);
        }
      },
      this.#context.progress,
    );
    this.#connection = connection;
    for (const stream of Object.values(this.#outputs)) stream.attach(connection!);
    connection!.start(early);
    return link;
  }

  #requestNow(): ExecRequest {
    if (!this.#attached) return this.#request;
    const { stdout, stderr } = this.#outputs;
    return {
      ...this.#request,
      resume: { stdout: stdout.received, stderr: stderr.received, eventSeq: this.#acknowledgedSeq },
    };
  }

  #explain(error: RuntimeError, lostAt: number | undefined): RuntimeError {
    if (lostAt === undefined || !RECONNECT_FAULTS.has(error.code)) return error;
    const seconds = Math.round((Date.now() - lostAt) / 1000);
    return new RuntimeError(
      "reconnect-window-exceeded",
      `The connection to ${this.#context.options.host} was lost and did not come back within ${seconds} s (${error.message})`,
      "The command has been ended on the build host, or will be; run it again",
    );
  }

  drop(): void {
    this.#connection?.destroy();
  }

  onLost(): void {
    this.#connection = undefined;
    this.#stdin.detach();
    this.#controls.detach();
    for (const stream of Object.values(this.#outputs)) stream.detach();
  }

  onJson(frame: AgentFrame): void {
    switch (frame.type) {
      case FrameType.Response:
        if (frame.value.kind === "error") this.#fail(RuntimeError.fromData(frame.value.error));
        else if (frame.value.kind === "attached") this.#onAttached(frame.value);
        else throw violation(`a ${frame.value.kind} response answers exec`);
        return;
      case FrameType.Event:
        if (this.#received.accept(frame.value.seq)) this.#onEvent(frame.value.seq, frame.value.body);
        return;
      case FrameType.ControlAcknowledge:
        this.#controls.acknowledge(frame.value.seq);
        return;
      case FrameType.Need:
      case FrameType.Progress:
      case FrameType.Fatal:
        throw violation(`a ${FrameType[frame.type]} frame came for an execution`);
    }
  }

  #onAttached({ stdin, controlSeq }: { stdin: number; controlSeq: number }): void {
    if (this.#attached) {
      this.#controls.attach(this.#connection!, controlSeq);
      this.#stdin.attach(this.#connection!, stdin);
    }
    this.#attached = true;
  }

  #onEvent(seq: number, event: WireEvent): void {
    switch (event.type) {
      case "started":
        this.#events.onStarted();
        break;
      case "resized":
        this.#events.onResized(event.id);
        break;
      case "exit":
        this.#exit = event;
        this.#exitSeq = seq;
        this.#checkFinished();
        return;
      case "error":
        this.#fail(RuntimeError.fromData(event.error));
        break;
    }
    this.#acknowledgeEvents(seq);
  }

  #acknowledgeEvents(seq: number): void {
    this.#acknowledgedSeq = seq;
    this.#connection?.sendJson(FrameType.EventAcknowledge, { seq });
  }

  onData(stream: StreamId, offset: number, chunk: Buffer): void {
    const output = outputName(stream);
    const fresh = this.#outputs[output].accept(offset, chunk);
    if (fresh !== undefined) this.#events.onOutput(output, fresh);
  }

  onMark(type: MarkFrameType, stream: StreamId, offset: number): void {
    if (stream === StreamId.Stdin) {
      if (type === FrameType.Acknowledge) this.#stdin.acknowledge(offset);
      else if (type === FrameType.Refuse) this.#stdin.refuse();
      else throw violation("the agent ended the standard input");
      return;
    }
    if (type !== FrameType.End) throw violation(`${FrameType[type]} came for an output`);
    const output = outputName(stream);
    const repeated = this.#outputs[output].complete;
    this.#outputs[output].end(offset);
    if (!repeated) this.#events.onOutputEnd(output);
    this.#checkFinished();
  }

  /** The exit is told, and acknowledged, only when every byte before it is with the operating system. */
  #checkFinished(): void {
    const exit = this.#exit;
    if (exit === undefined || this.#finished) return;
    if (!this.#outputs.stdout.drained || !this.#outputs.stderr.drained) return;
    this.#finished = true;
    this.#acknowledgeEvents(this.#exitSeq);
    this.#connection?.end();
    this.#events.onExit(exit.code, exit.signal);
  }

  #fail(error: RuntimeError): void {
    if (this.#finished) return;
    this.#finished = true;
    this.#connection?.destroy();
    this.#events.onFailed(error);
  }
}

/** One connection of an execution, as the wire sees it. */
class Link implements ConnectionHandler<AgentFrame> {
  readonly #client: ExecutionClient;
  /** Resolves when nothing can be sent or received any more, with the reason when there is one. */
  readonly lost: Promise<RuntimeError | undefined>;
  #onLost: (reason: RuntimeError | undefined) => void = () => {};
  /** The agent has said something over this connection. */
  answered = false;

  constructor(client: ExecutionClient) {
    this.#client = client;
    this.lost = new Promise((resolve) => {
      this.#onLost = resolve;
    });
  }

  onJson(frame: AgentFrame): void {
    this.answered = true;
    this.#client.onJson(frame);
  }

  onData(stream: StreamId, offset: number, chunk: Buffer): void {
    this.#client.onData(stream, offset, chunk);
  }

  onMark(type: MarkFrameType, stream: StreamId, offset: number): void {
    this.#client.onMark(type, stream, offset);
  }

  /** Closing this side is how the broker sees that somebody is still there. */
  onEnd(): void {
    this.#client.drop();
  }

  onClose(reason: RuntimeError | undefined): void {
    this.#client.onLost();
    this.#onLost(reason);
  }
}

function lostAgain(): RuntimeError {
  return new RuntimeError(
    "connection-lost",
    "The agent on the build host closes every connection at once",
    "Look at its log there",
  );
}

function outputName(stream: StreamId): OutputName {
  if (stream === StreamId.Stdout) return "stdout";
  if (stream === StreamId.Stderr) return "stderr";
  throw violation(`an execution has no output on stream ${StreamId[stream]}`);
}

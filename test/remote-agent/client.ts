import { randomBytes } from "node:crypto";
import type { Socket } from "node:net";
import { type ConnectionHandler, WireConnection } from "../../src/wire/connection.ts";
import { RuntimeError } from "../../src/wire/errors.ts";
import { FrameType, type MarkFrameType, StreamId } from "../../src/wire/frame.ts";
import {
  type AgentFrame,
  CLIENT_SIDE,
  type WireEvent,
  type WireNeed,
  type WireResponse,
} from "../../src/wire/from-agent.ts";
import type { ExecRequest, WireRequest } from "../../src/wire/from-client.ts";
import { type AgentProcess, INSTANCE } from "./agent-process.ts";

/** One connection to an agent that writes down everything that comes, and acknowledges only what a test tells it to. */
export class Client implements ConnectionHandler<AgentFrame> {
  readonly connection: WireConnection;
  readonly socket: Socket;
  readonly responses: WireResponse[] = [];
  readonly events: { seq: number; body: WireEvent }[] = [];
  readonly marks: { type: MarkFrameType; stream: StreamId; offset: number }[] = [];
  readonly needs: WireNeed[] = [];
  readonly controlAcknowledgements: number[] = [];
  readonly received: Record<number, Buffer[]> = { [StreamId.Stdout]: [], [StreamId.Stderr]: [] };
  ended = false;
  /** Set when the connection is closed: with what reason. */
  closed: { error: RuntimeError | undefined } | undefined;
  #waiting: (() => void)[] = [];

  static async open(agent: AgentProcess): Promise<Client> {
    return new Client(await agent.connect());
  }

  constructor(socket: Socket) {
    this.socket = socket;
    this.connection = new WireConnection(socket, CLIENT_SIDE, this) as WireConnection;
    this.connection.start();
  }

  request(request: WireRequest): this {
    this.connection.sendJson(FrameType.Request, request);
    return this;
  }

  /** Waits for a condition about what has come. */
  async until(condition: () => boolean): Promise<void> {
    while (!condition()) {
      if (this.closed !== undefined) throw this.closed.error ?? new Error("the connection closed first");
      await new Promise<void>((wake) => this.#waiting.push(wake));
    }
  }

  /** The answer to the request. */
  async response(): Promise<WireResponse> {
    await this.until(() => this.responses.length > 0);
    return this.responses[0]!;
  }

  async event(type: WireEvent["type"]): Promise<WireEvent> {
    await this.until(() => this.events.some(({ body }) => body.type === type));
    return this.events.find(({ body }) => body.type === type)!.body;
  }

  /** Waits until nothing can come any more. */
  async end(): Promise<RuntimeError | undefined> {
    while (this.closed === undefined && !this.ended) await new Promise<void>((wake) => this.#waiting.push(wake));
    return this.closed?.error;
  }

  output(stream = StreamId.Stdout): Buffer {
    return Buffer.concat(this.received[stream] ?? []);
  }

  onJson(frame: AgentFrame): void {
    if (frame.type === FrameType.Response) this.responses.push(frame.value);
    else if (frame.type === FrameType.Event) this.events.push(frame.value);
    else if (frame.type === FrameType.Need) this.needs.push(frame.value);
    else if (frame.type === FrameType.ControlAcknowledge) this.controlAcknowledgements.push(frame.value.seq);
    this.#wake();
  }

  onData(stream: StreamId, _offset: number, chunk: Buffer): void {
    this.received[stream]?.push(chunk);
    this.#wake();
  }

  onMark(type: MarkFrameType, stream: StreamId, offset: number): void {
    this.marks.push({ type, stream, offset });
    this.#wake();
  }

  onEnd(): void {
    this.ended = true;
    this.#wake();
  }

  onClose(error: RuntimeError | undefined): void {
    this.closed = { error };
    this.#wake();
  }

  #wake(): void {
    for (const wake of this.#waiting.splice(0)) wake();
  }
}

export const newSession = () => `session-${randomBytes(8).toString("hex")}`;

export function execRequest(workspaceId: string, argv: string[], changes: Partial<ExecRequest> = {}): ExecRequest {
  return {
    op: "exec",
    session: newSession(),
    workspaceId,
    runtimeInstanceId: INSTANCE,
    execId: randomBytes(8).toString("hex"),
    argv,
    env: {},
    stdio: { kind: "pipes" },
    environment: { path: [], env: {} },
    reconnectWindowMs: 60_000,
    ...changes,
  };
}

/** Performs one operation over a connection of its own. @throws RuntimeError what the agent reports */
export async function ask(agent: AgentProcess, request: WireRequest): Promise<WireResponse> {
  const client = (await Client.open(agent)).request(request);
  const response = await client.response();
  client.connection.destroy();
  if (response.kind === "error") throw RuntimeError.fromData(response.error);
  return response;
}

export async function statusOf(agent: AgentProcess): Promise<Extract<WireResponse, { kind: "status" }>> {
  return (await ask(agent, { op: "status" })) as Extract<WireResponse, { kind: "status" }>;
}

import type { Socket } from "node:net";
import type { CommandRuntimeLifecycleResponse } from "../src/contract/index.ts";
import { type ConnectionHandler, WireConnection } from "../src/wire/connection.ts";
import { RuntimeError } from "../src/wire/errors.ts";
import { FrameType, type MarkFrameType, StreamId, violation } from "../src/wire/frame.ts";
import type { WireResponse } from "../src/wire/from-agent.ts";
import { AGENT_SIDE, type ClientFrame, type ExecRequest, type WireRequest } from "../src/wire/from-client.ts";
import type { Execution } from "./execution.ts";
import type { Executions } from "./executions.ts";
import { failureOf } from "./failure.ts";
import { forwardToAgent } from "./forward.ts";
import type { HelperStore } from "./helper.ts";
import type { Links } from "./links.ts";
import { Uploads } from "./upload.ts";
import type { Shape, Workspaces } from "./workspaces.ts";

/** What an operation can reach of the agent. */
export interface AgentServices {
  workspaces: Workspaces;
  executions: Executions;
  helpers: HelperStore;
  links: Links;
  status(): Extract<WireResponse, { kind: "status" }>;
}

const OK: CommandRuntimeLifecycleResponse = { type: "ok", protocolVersion: 1 };

/**
 * One connection from a client: one request, its response, and for an execution the streams that follow. A connection
 * on which nothing has arrived yet is a spare that the broker keeps.
 */
export class Operation implements ConnectionHandler<ClientFrame> {
  readonly #services: AgentServices;
  readonly #connection: WireConnection;
  readonly #uploads: Uploads;
  readonly #abort = new AbortController();
  readonly #onClosed: () => void;
  #leaveLink = () => {};
  #requested = false;
  #answered = false;
  #execution: Execution | undefined;
  /** Set while an execution is being started: frames for it that came in one chunk with the request. */
  #early: ((execution: Execution) => void)[] | undefined;

  constructor(socket: Socket, services: AgentServices, onClosed: () => void) {
    this.#services = services;
    this.#onClosed = onClosed;
    this.#connection = new WireConnection(socket, AGENT_SIDE, this);
    this.#uploads = new Uploads(this.#connection);
    this.#connection.start();
  }

  /** Closes the connection when it is a spare: somebody else serves what would come over it. */
  closeUnlessUsed(): void {
    if (!this.#requested) this.#connection.destroy();
  }

  onLink(name: string): void {
    const { window, leave } = this.#services.links.join(name);
    this.#connection.window = window;
    this.#leaveLink = leave;
  }

  onJson(frame: ClientFrame): void {
    switch (frame.type) {
      case FrameType.Request:
        if (this.#requested) throw violation("a second request came on one connection");
        this.#requested = true;
        this.#route(frame.value);
        return;
      case FrameType.Supply:
        this.#uploads.onSupply(frame.value);
        return;
      case FrameType.Control:
        this.#toExecution((execution) => execution.onControl(frame.value.seq, frame.value.body));
        return;
      case FrameType.EventAcknowledge:
        this.#toExecution((execution) => execution.onEventAcknowledged(frame.value.seq));
        return;
      default:
        throw violation(`a ${FrameType[frame.type]} frame came from a client`);
    }
  }

  onData(stream: StreamId, offset: number, chunk: Buffer): void {
    if (stream === StreamId.Upload) this.#uploads.onData(offset, chunk);
    else this.#toExecution((execution) => execution.onData(stream, offset, chunk));
  }

  onMark(type: MarkFrameType, stream: StreamId, offset: number): void {
    if (stream === StreamId.Upload) this.#uploads.onMark(type, offset);
    else this.#toExecution((execution) => execution.onMark(type, stream, offset));
  }

  /**
   * The client, or the link, is gone; which of the two the broker knows, and tells in an `abandon`. An execution keeps
   * this half of the socket, so that the broker sees the difference between it and an operation that is done.
   */
  onEnd(): void {
    if (this.#execution === undefined) this.#connection.end();
    this.#gone();
  }

  onClose(): void {
    this.#gone();
    this.#leaveLink();
    this.#onClosed();
  }

  #gone(): void {
    this.#uploads.close(
      new RuntimeError("connection-lost", "The client went away in the middle of an operation", "Try again"),
    );
    this.#abort.abort(
      new RuntimeError("connection-lost", "The client went away in the middle of an operation", "Try again"),
    );
    this.#execution?.detach(this.#connection);
  }

  #toExecution(deliver: (execution: Execution) => void): void {
    if (this.#execution !== undefined) deliver(this.#execution);
    else if (this.#early !== undefined) this.#early.push(deliver);
    // A client that has not yet heard that its execution was refused may go on sending.
    else if (!this.#answered) throw violation("a frame came for an execution that is not there");
  }

  /**
   * An execution of an older agent stays with it; decided before anything else is taken from the client, since what
   * follows the request belongs to whoever serves it.
   */
  #route(request: WireRequest): void {
    const elsewhere = request.op === "exec" || request.op === "signal" ? this.#ownerElsewhere(request) : undefined;
    if (elsewhere === undefined) {
      void this.#serve(request);
      return;
    }
    this.#connection.handOver((socket, rest) => forwardToAgent(socket, rest, elsewhere, request));
  }

  #ownerElsewhere({
    workspaceId,
    execId,
    runtimeInstanceId,
  }: WireRequest & { op: "exec" | "signal" }): string | undefined {
    const { workspaces, executions } = this.#services;
    try {
      const elsewhere = executions.ownerElsewhere(workspaceId, execId, workspaces.folder(workspaceId));
      if (elsewhere !== undefined) workspaces.ownedFolder(workspaceId, runtimeInstanceId);
      return elsewhere;
    } catch {
      // No such workspace, or not this client's: the operation itself reports it.
      return undefined;
    }
  }

  async #serve(request: WireRequest): Promise<void> {
    try {
      const response = await this.#perform(request);
      if (response === undefined) return;
      this.#connection.sendJson(FrameType.Response, response);
    } catch (error) {
      this.#connection.sendJson(FrameType.Response, { kind: "error", error: failureOf(error).toData() });
    }
    this.#answered = true;
    this.#connection.end();
  }

  /** @returns undefined when the connection stays open for an execution */
  async #perform(request: WireRequest): Promise<WireResponse | undefined> {
    const { workspaces, executions } = this.#services;
    switch (request.op) {
      case "create":
        await this.#receiveHelper(request);
        return lifecycle(
          await workspaces.create(request, {
            supply: async (have) => {
              const { supply, stream } = await this.#uploads.request({ what: "source", have });
              if (supply.what !== "source") throw violation("a source was asked for, something else came");
              return { manifest: supply.manifest, stream };
            },
            progress: (text) => this.#connection.sendJson(FrameType.Progress, { text: text.slice(0, 1024) }),
            signal: this.#abort.signal,
          }),
        );
      case "inspect":
        await this.#receiveHelper(request);
        return lifecycle(await workspaces.inspect(request.workspaceId, request.runtimeInstanceId, request));
      case "resume":
        await this.#receiveHelper(request);
        return lifecycle(await workspaces.resume(request.workspaceId, request.runtimeInstanceId, request));
      case "pause":
        await workspaces.pause(request.workspaceId, request.runtimeInstanceId);
        return lifecycle(OK);
      case "destroy":
        await workspaces.destroy(request.workspaceId, request.runtimeInstanceId);
        return lifecycle(OK);
      case "reconcile":
        await workspaces.reconcile(request.workspaceIds, request.runtimeInstanceId);
        return lifecycle(OK);
      case "signal":
        await executions.signal(
          request.workspaceId,
          request.execId,
          request.signal,
          workspaces.ownedFolder(request.workspaceId, request.runtimeInstanceId),
        );
        return lifecycle(OK);
      case "exec":
        await this.#execute(request);
        return undefined;
      case "abandon":
        executions.abandon(request.session);
        return lifecycle(OK);
      case "status":
        return this.#services.status();
    }
  }

  async #execute(request: ExecRequest): Promise<void> {
    const { workspaces, executions } = this.#services;
    let execution = executions.takeUp(request, this.#connection);
    if (execution === undefined) {
      this.#early = [];
      this.#connection.pause();
      try {
        const place = await workspaces.requireReady(request.workspaceId, request.runtimeInstanceId, request);
        execution = await executions.start(request, place, this.#connection, this.#abort.signal);
      } catch (error) {
        this.#early = undefined;
        throw error;
      } finally {
        this.#connection.resume();
      }
    }
    this.#adopt(execution);
  }

  #adopt(execution: Execution): void {
    this.#execution = execution;
    const early = this.#early ?? [];
    this.#early = undefined;
    try {
      for (const deliver of early) deliver(execution);
    } catch (error) {
      this.#connection.fail(failureOf(error));
    }
  }

  async #receiveHelper({ helper }: Shape): Promise<void> {
    const { helpers } = this.#services;
    if (helper === undefined || helpers.has(helper)) return;
    const { stream } = await this.#uploads.request({ what: "helper" });
    await helpers.receive(helper, stream);
  }
}

function lifecycle(response: CommandRuntimeLifecycleResponse): WireResponse {
  return { kind: "lifecycle", response };
}

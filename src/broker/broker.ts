import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { parseRuntimeOptions } from "../ssh/index.ts";
import { DialLineReader, type DialReply, type DialRequest } from "../wire/dial.ts";
import { parseDialRequest } from "../wire/dial-request.ts";
import { RuntimeError } from "../wire/errors.ts";
import { securePrivateFolder } from "../wire/private-folder.ts";
import { type Claim, claimName, MAX_SOCKET_PATH_BYTES, ownSocketPath } from "../wire/rendezvous.ts";
import type { AgentFiles } from "./agent-files.ts";
import { askAgent } from "./ask-agent.ts";
import type { ChannelRequest } from "./host.ts";
import { Pool } from "./pool.ts";
import { splice } from "./splice.ts";

/** Milliseconds that the agent gets to close a finished operation before its wrapper counts as gone. */
const FAREWELL_MS = 100;
/** Milliseconds within which a wrapper whose link was lost dials again; a busy machine may let it wait that long. */
const RETURN_MS = 5000;
/** Until the first dial says otherwise. */
const DEFAULT_IDLE_MS = 600_000;
/** Milliseconds within which a client has to send its whole line. */
const LINE_DEADLINE_MS = 10_000;

/** The connection pool of one user. It never looks into the wire protocol and holds no state of an execution. */
export class Broker {
  readonly #pool: Pool;
  readonly #claim: Claim;
  #wrappers = 0;
  #abandoning = 0;
  /** Sessions whose link was lost and whose wrapper has closed its side, until it dials again. */
  readonly #returning = new Map<string, NodeJS.Timeout>();
  #idleMs = DEFAULT_IDLE_MS;
  #idleTimer: NodeJS.Timeout | undefined;
  #finish: () => void = () => {};

  /** Resolves when this broker has ended, because it was idle or was told to stop. */
  readonly ended: Promise<void>;

  /**
   * @returns undefined when another broker of this build already serves
   * @throws RuntimeError runtime-folder-unsafe, broker-start-failed
   */
  static async start(folder: string, name: string, files: AgentFiles): Promise<Broker | undefined> {
    securePrivateFolder(folder);
    if (Buffer.byteLength(ownSocketPath(folder, name)) > MAX_SOCKET_PATH_BYTES) throw tooLong(folder);
    let broker: Broker | undefined;
    const early: Socket[] = [];
    const claim = await claimName(folder, name, (socket) => {
      if (broker === undefined) early.push(socket);
      else broker.#accept(socket);
    });
    if (claim === undefined) return undefined;
    broker = new Broker(claim, files);
    for (const socket of early) broker.#accept(socket);
    return broker;
  }

  private constructor(claim: Claim, files: AgentFiles) {
    this.#claim = claim;
    this.#pool = new Pool(files);
    this.ended = new Promise((resolve) => {
      this.#finish = resolve;
    });
    this.#watchIdle();
  }

  #accept(socket: Socket): void {
    this.#wrappers += 1;
    clearTimeout(this.#idleTimer);
    socket.on("error", () => {});
    socket.once("close", () => {
      this.#wrappers -= 1;
      this.#watchIdle();
    });
    this.#readRequest(socket);
  }

  #readRequest(socket: Socket): void {
    const reader = new DialLineReader();
    const timer = setTimeout(() => socket.destroy(), LINE_DEADLINE_MS);
    socket.once("close", () => clearTimeout(timer));
    const onData = (chunk: Buffer) => {
      let request: DialRequest;
      try {
        reader.push(chunk);
        const line = reader.next();
        if (line === undefined) return;
        request = parseDialRequest(line);
      } catch {
        socket.destroy();
        return;
      }
      clearTimeout(timer);
      socket.off("data", onData);
      socket.pause();
      const rest = reader.rest();
      if (rest.length > 0) socket.unshift(rest);
      void this.#serve(socket, request);
    };
    socket.on("data", onData);
  }

  async #serve(socket: Socket, request: DialRequest): Promise<void> {
    switch (request.type) {
      case "status":
        socket.end(line({ type: "status", pid: process.pid, hosts: await this.#pool.status() }));
        return;
      case "stop":
        socket.end(line({ type: "stopping", pid: process.pid }), () => this.#stop());
        return;
      case "dial":
        await this.#dial(socket, request);
    }
  }

  async #dial(socket: Socket, request: Extract<DialRequest, { type: "dial" }>): Promise<void> {
    if (request.session !== undefined) this.#returned(request.session);
    const gone = new AbortController();
    socket.once("close", () => gone.abort());
    let channelRequest: ChannelRequest | undefined;
    try {
      const options = parseRuntimeOptions(request.options);
      this.#idleMs = options.brokerIdleMs;
      channelRequest = {
        options,
        caller: definedOnly(request.caller),
        patienceMs: request.patienceMs ?? 0,
        progress: (text) => socket.write(line({ type: "progress", text })),
        signal: gone.signal,
      };
      const channel = await this.#pool.openChannel(channelRequest);
      if (gone.signal.aborted) channel.destroy();
      else this.#join(socket, channel, request.session, channelRequest);
    } catch (error) {
      socket.end(line({ type: "error", error: RuntimeError.from(error).toData() }));
    }
    // A wrapper that went away while it waited to resume has left its workload running.
    if (gone.signal.aborted) this.#abandon(request.session, channelRequest);
  }

  #join(socket: Socket, channel: Duplex, session: string | undefined, channelRequest: ChannelRequest): void {
    socket.write(line({ type: "connected" }));
    splice(socket, channel, {
      onNearGone: () => {
        // The agent closes what is finished; a wrapper that goes away before that may leave something running.
        const farewell = setTimeout(() => {
          this.#abandon(session, channelRequest);
          channel.destroy();
        }, FAREWELL_MS);
        channel.once("end", () => clearTimeout(farewell));
      },
      onFarLost: () => {
        if (session !== undefined) socket.once("close", () => this.#expectReturn(session, channelRequest));
      },
    });
  }

  /** A wrapper whose link was lost dials again at once; one that does not was killed meanwhile. */
  #expectReturn(session: string, channelRequest: ChannelRequest): void {
    const timer = setTimeout(() => {
      this.#returning.delete(session);
      this.#abandon(session, channelRequest);
    }, RETURN_MS);
    this.#returning.set(session, timer);
  }

  #returned(session: string): void {
    clearTimeout(this.#returning.get(session));
    this.#returning.delete(session);
  }

  /** Delivers the message for as long as an agent would keep the workload; after that it has ended it by itself. */
  #abandon(session: string | undefined, request: ChannelRequest | undefined): void {
    if (session === undefined || request === undefined) return;
    this.#abandoning += 1;
    void this.#deliverAbandon(session, request);
  }

  async #deliverAbandon(session: string, request: ChannelRequest): Promise<void> {
    try {
      const patienceMs = request.options.reconnectWindowMs;
      const channel = await this.#pool.openChannel({
        ...request,
        patienceMs,
        progress: () => {},
        signal: new AbortController().signal,
      });
      await askAgent(channel, { op: "abandon", session });
    } catch (error) {
      console.error(new Date().toISOString(), `could not abandon a session: ${RuntimeError.from(error).toLine()}`);
    } finally {
      this.#abandoning -= 1;
      this.#watchIdle();
    }
  }

  #watchIdle(): void {
    clearTimeout(this.#idleTimer);
    if (this.#wrappers > 0 || this.#abandoning > 0 || this.#returning.size > 0) return;
    this.#idleTimer = setTimeout(() => this.#stop(), this.#idleMs);
  }

  /** Gives up the name first, so that nobody dials a broker that is about to end. */
  #stop(): void {
    this.#claim.release();
    this.#pool.close();
    this.#finish();
  }
}

function tooLong(folder: string): RuntimeError {
  return new RuntimeError(
    "broker-start-failed",
    `The path of the runtime folder ${folder} is too long for the sockets in it`,
    "Name a shorter one with the variable PASEO_SSH_RUNTIME_DIR",
  );
}

function line(reply: DialReply): string {
  return `${JSON.stringify(reply)}\n`;
}

function definedOnly<T extends object>(value: T): { [K in keyof T]?: NonNullable<T[K]> } {
  return Object.fromEntries(Object.entries(value).filter(([, entry]) => entry !== undefined)) as {
    [K in keyof T]?: NonNullable<T[K]>;
  };
}

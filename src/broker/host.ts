import { randomBytes } from "node:crypto";
import type { Duplex } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import type PQueue from "p-queue";
import {
  agentSocket,
  type CallerEnvironment,
  type Carrier,
  connect,
  Keychain,
  type RuntimeOptions,
  type SshTarget,
} from "../ssh/index.ts";
import type { HostStatus } from "../wire/dial.ts";
import { type ErrorCode, RuntimeError } from "../wire/errors.ts";
import { LINK_NAME_BYTES } from "../wire/frame.ts";
import { AgentEndpoint, type AgentOptions } from "./agent-endpoint.ts";
import type { AgentFiles } from "./agent-files.ts";
import { AttemptPatience } from "./attempt-patience.ts";
import { BackOff } from "./back-off.ts";

/** Faults that time may heal. Every other one is tried once and reported. */
const TRANSIENT: ReadonlySet<ErrorCode> = new Set([
  "connection-failed",
  "connection-lost",
  "connection-refused",
  "connection-timeout",
  "host-unknown",
  "proxy-failed",
]);

/** Milliseconds that an agent gets for an answer when nothing hangs on it. */
const ANSWER_LIMIT_MS = 3000;

export interface ChannelRequest {
  options: RuntimeOptions;
  caller: CallerEnvironment;
  /** Milliseconds for which transient faults are worth waiting; 0 for an operation that wants an answer now. */
  patienceMs: number;
  progress(text: string): void;
  /** Aborted when nobody waits for the channel any more. */
  signal: AbortSignal;
}

export function isTransient(error: unknown): boolean {
  return error instanceof RuntimeError && TRANSIENT.has(error.code);
}

/** One SSH connection to one target, made when it is needed and made again when it is lost. */
export class Host {
  readonly target: SshTarget;
  readonly #files: AgentFiles;
  readonly #handshakes: PQueue;
  readonly #backOff = new BackOff();
  #connection: Promise<Live> | undefined;
  #live: Live | undefined;
  #lastError: RuntimeError | undefined;
  #channels = 0;
  readonly #patience = new AttemptPatience();

  /** @param handshakes bounds the handshakes under way over all hosts */
  constructor(target: SshTarget, files: AgentFiles, handshakes: PQueue) {
    this.target = target;
    this.#files = files;
    this.#handshakes = handshakes;
  }

  get connected(): boolean {
    return this.#live !== undefined;
  }

  /** Asks the agent as well, which takes a round trip; a link that does not answer in time leaves that out. */
  async status(): Promise<HostStatus> {
    const live = this.#live;
    const endpoint = live?.anyEndpoint();
    const address = endpoint?.address;
    const answer = await endpoint?.ask(ANSWER_LIMIT_MS);
    return {
      host: this.target.alias,
      state: live !== undefined ? "connected" : this.#connection !== undefined ? "connecting" : "waiting",
      channels: this.#channels,
      spares: endpoint?.spares ?? 0,
      ...(live === undefined ? {} : { connectedForMs: Date.now() - live.since, carrier: live.carrier.kind }),
      ...(answer === undefined
        ? {}
        : { roundTripMs: answer.roundTripMs, workspaces: answer.workspaces, executions: answer.executions }),
      ...(address === undefined
        ? {}
        : { agent: { pid: address.pid, build: address.build, node: address.node, platform: address.platform } }),
      ...(live === undefined && this.#lastError !== undefined ? { error: this.#lastError.toLine() } : {}),
    };
  }

  get lastError(): RuntimeError | undefined {
    return this.#lastError;
  }

  /**
   * Opens a stream to the agent of this target, over the connection that stands or over one attempt at a new one.
   * @throws RuntimeError see `isTransient` for those that time may heal
   */
  async openChannel(request: ChannelRequest): Promise<Duplex> {
    for (;;) {
      const pooled = this.#live;
      try {
        const live = await this.#connected(request);
        const channel = await live.endpoint(this.#files, this.#agentOptions(request)).openChannel(request.progress);
        this.#count(channel);
        return channel;
      } catch (error) {
        if (pooled === undefined || !isTransient(error) || request.signal.aborted) throw error;
        // A connection from the pool may have been dead for a while; that alone fails nobody.
        pooled.carrier.close();
      }
    }
  }

  /** Gives up a connection over which the agent does not answer. */
  async examine(): Promise<void> {
    const live = this.#live;
    const endpoint = live?.anyEndpoint();
    if (live === undefined || endpoint === undefined || endpoint.spares === 0) return;
    if ((await endpoint.ask(ANSWER_LIMIT_MS)) === undefined) live.carrier.close();
  }

  #agentOptions({ options }: ChannelRequest): AgentOptions {
    const { host, root, node, provisionNode, forwardAgent } = options;
    // The limits of a connection that stands are those of whoever made it; what is started over it has its own.
    const deadlineMs = options.connectTimeoutMs ?? this.target.connectTimeoutMs;
    return { host, root, node, provisionNode, forwardAgent, deadlineMs };
  }

  close(): void {
    this.#live?.carrier.close();
  }

  #count(channel: Duplex): void {
    this.#channels += 1;
    channel.once("close", () => {
      this.#channels -= 1;
    });
  }

  /** Single flight: everybody who needs the host while it is being connected shares that attempt. */
  #connected(request: ChannelRequest): Promise<Live> {
    this.#connection ??= this.#connect(request).catch((error) => {
      this.#connection = undefined;
      throw error;
    });
    return this.#connection;
  }

  async #connect({ caller }: ChannelRequest): Promise<Live> {
    await delay(this.#backOff.waitMs);
    let begunAt = Date.now();
    let carrier: Carrier;
    try {
      carrier = await this.#handshakes.add(() => {
        begunAt = Date.now();
        return connect(this.target, {
          authSock: caller.SSH_AUTH_SOCK,
          env: caller,
          keychain: new Keychain(caller),
          signal: this.#attemptLimit(),
        });
      });
    } catch (error) {
      const failure = RuntimeError.from(error);
      if (isTransient(failure)) this.#backOff.failed(begunAt);
      this.#lastError = failure;
      throw failure;
    }
    this.#backOff.succeeded();
    this.#patience.handshakeTook(Date.now() - begunAt);
    const live = new Live(carrier, agentSocket(this.target, caller.SSH_AUTH_SOCK) !== undefined);
    this.#live = live;
    void carrier.closed.then((reason) => {
      live.close();
      this.#live = undefined;
      this.#connection = undefined;
      this.#lastError = reason;
    });
    return live;
  }

  #attemptLimit(): AbortSignal | undefined {
    const limitMs = this.#patience.limitMs(this.#backOff.failures);
    return limitMs < this.target.connectTimeoutMs ? AbortSignal.timeout(limitMs) : undefined;
  }
}

/** A connection that stands, with the agents that are reached over it: one for each root folder in use. */
class Live {
  readonly carrier: Carrier;
  /** When the login was done, as Date.now() says it. */
  readonly since = Date.now();
  readonly #name = randomBytes(LINK_NAME_BYTES);
  readonly #hasAuthAgent: boolean;
  readonly #endpoints = new Map<string, AgentEndpoint>();

  constructor(carrier: Carrier, hasAuthAgent: boolean) {
    this.carrier = carrier;
    this.#hasAuthAgent = hasAuthAgent;
  }

  endpoint(files: AgentFiles, options: AgentOptions): AgentEndpoint {
    const key = JSON.stringify([options.root, options.node, options.provisionNode]);
    let endpoint = this.#endpoints.get(key);
    if (endpoint === undefined) {
      endpoint = new AgentEndpoint(this.carrier, this.#name, files, options, this.#hasAuthAgent);
      this.#endpoints.set(key, endpoint);
    }
    return endpoint;
  }

  anyEndpoint(): AgentEndpoint | undefined {
    return this.#endpoints.values().next().value;
  }

  close(): void {
    for (const endpoint of this.#endpoints.values()) endpoint.close();
  }
}

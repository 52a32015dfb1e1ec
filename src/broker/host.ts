import { randomBytes } from "node:crypto";
import type { Duplex } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import type PQueue from "p-queue";
import { type CallerEnvironment, type Carrier, connect, type RuntimeOptions, type SshTarget } from "../ssh/index.ts";
import type { HostStatus } from "../wire/dial.ts";
import { type ErrorCode, RuntimeError } from "../wire/errors.ts";
import { LINK_NAME_BYTES } from "../wire/frame.ts";
import { AgentEndpoint } from "./agent-endpoint.ts";
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
]);

export interface ChannelRequest {
  options: RuntimeOptions;
  caller: CallerEnvironment;
  /** Milliseconds for which transient faults are worth waiting; 0 for an operation that wants an answer now. */
  patienceMs: number;
  progress(text: string): void;
  /** Aborted when nobody waits for the channel any more. */
  signal: AbortSignal;
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

  status(): HostStatus {
    const endpoint = this.#live?.anyEndpoint();
    const address = endpoint?.address;
    return {
      host: this.target.alias,
      state: this.#live !== undefined ? "connected" : this.#connection !== undefined ? "connecting" : "waiting",
      channels: this.#channels,
      spares: endpoint?.spares ?? 0,
      ...(address === undefined
        ? {}
        : { agent: { pid: address.pid, build: address.build, node: address.node, platform: address.platform } }),
      ...(this.#live === undefined && this.#lastError !== undefined ? { error: this.#lastError.toLine() } : {}),
    };
  }

  /**
   * Opens a stream to the agent of this target.
   * @throws RuntimeError the first permanent fault, or the last transient one when patience has run out
   */
  async openChannel(request: ChannelRequest): Promise<Duplex> {
    const { patienceMs, signal } = request;
    if (patienceMs === 0) return await this.#openChannel(request);
    const timeout = AbortSignal.timeout(patienceMs);
    const opening = this.#openChannel({ ...request, signal: AbortSignal.any([signal, timeout]) });
    return await Promise.race([opening, this.#impatience(timeout, opening)]);
  }

  /** An attempt that everybody shares may take longer than one of them is ready to wait. */
  #impatience(timeout: AbortSignal, opening: Promise<Duplex>): Promise<never> {
    return new Promise((_resolve, reject) => {
      timeout.addEventListener("abort", () => {
        opening.then(
          (channel) => channel.destroy(),
          () => {},
        );
        const name = this.target.alias;
        reject(this.#lastError ?? new RuntimeError("connection-timeout", `${name} could not be reached in time`));
      });
    });
  }

  async #openChannel(request: ChannelRequest): Promise<Duplex> {
    const deadline = Date.now() + request.patienceMs;
    for (;;) {
      const pooled = this.#live;
      try {
        const live = await this.#connected(request);
        const channel = await live.endpoint(this.#files, request.options).openChannel(request.progress);
        this.#count(channel);
        return channel;
      } catch (error) {
        const failure = RuntimeError.from(error);
        if (!TRANSIENT.has(failure.code) || request.signal.aborted) throw failure;
        // A connection from the pool may have been dead for a while; that alone fails nobody.
        if (pooled !== undefined) pooled.carrier.close();
        else if (Date.now() >= deadline) throw failure;
      }
    }
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
        return connect(this.target, { authSock: caller.SSH_AUTH_SOCK, signal: this.#attemptLimit() });
      });
    } catch (error) {
      const failure = RuntimeError.from(error);
      if (TRANSIENT.has(failure.code)) this.#backOff.failed(begunAt);
      this.#lastError = failure;
      throw failure;
    }
    this.#backOff.succeeded();
    this.#patience.handshakeTook(Date.now() - begunAt);
    const live = new Live(carrier);
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
  readonly #name = randomBytes(LINK_NAME_BYTES);
  readonly #endpoints = new Map<string, AgentEndpoint>();

  constructor(carrier: Carrier) {
    this.carrier = carrier;
  }

  endpoint(files: AgentFiles, options: RuntimeOptions): AgentEndpoint {
    const key = JSON.stringify([options.root, options.node]);
    let endpoint = this.#endpoints.get(key);
    if (endpoint === undefined) {
      endpoint = new AgentEndpoint(this.carrier, this.#name, files, options);
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

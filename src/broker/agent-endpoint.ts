import type { Duplex } from "node:stream";
import PQueue from "p-queue";
import type { Carrier, RuntimeOptions } from "../ssh/index.ts";
import { RuntimeError } from "../wire/errors.ts";
import { encodeLink } from "../wire/frame.ts";
import type { WireResponse } from "../wire/from-agent.ts";
import type { AgentFiles } from "./agent-files.ts";
import { askAgent } from "./ask-agent.ts";
import { AuthLink } from "./auth-link.ts";
import { AgentBridge } from "./bridge.ts";
import { type AgentAddress, deployAgent, type HostFacts } from "./deploy.ts";
import { SpareChannel } from "./spare-channel.ts";

/** Channels that are kept open and unused, so that a dial costs no round trip. */
const SPARE_CHANNELS = 4;
/** How long after a spare channel was taken another one is opened, in ms. */
const REFILL_DELAY_MS = 50;
/** Channel openings under way at once on one connection. */
const OPENINGS_AT_ONCE = 16;

type AgentStatus = Extract<WireResponse, { kind: "status" }>;

/** Which agent it is, and how long its start may take. */
export interface AgentOptions
  extends Pick<RuntimeOptions, "host" | "root" | "node" | "provisionNode" | "forwardAgent"> {
  deadlineMs: number;
}

/** One agent (a root folder) behind one SSH connection. Lives as long as the connection. */
export class AgentEndpoint {
  readonly #carrier: Carrier;
  readonly #files: AgentFiles;
  readonly #options: AgentOptions;
  readonly #link: Buffer;
  readonly #openings = new PQueue({ concurrency: OPENINGS_AT_ONCE });
  readonly #authLink: AuthLink;
  readonly #hasAuthAgent: boolean;
  #hasDeployed = false;
  #lastNotice = "";
  /** Set once the server has refused to forward streams, for as long as the connection lives. */
  #bridge: AgentBridge | undefined;
  #address: Promise<AgentAddress> | undefined;
  #known: AgentAddress | undefined;
  #spares: SpareChannel[] = [];
  #refilling = 0;
  #closed = false;
  #refillTimer: NodeJS.Timeout | undefined;

  /**
   * @param link names the SSH connection to the agent: its channels share what they may have on the way
   * @param hasAuthAgent there is an ssh agent here that could be forwarded
   */
  constructor(carrier: Carrier, link: Buffer, files: AgentFiles, options: AgentOptions, hasAuthAgent: boolean) {
    this.#carrier = carrier;
    this.#link = link;
    this.#files = files;
    this.#options = options;
    this.#hasAuthAgent = hasAuthAgent;
    this.#authLink = new AuthLink(carrier, options.deadlineMs);
  }

  get address(): AgentAddress | undefined {
    return this.#known;
  }

  get spares(): number {
    return this.#spares.length;
  }

  /**
   * Asks the agent how it is, over a spare channel.
   * @param limitMs how long its answer is waited for
   * @returns undefined when there is no answer, or no spare channel
   */
  async ask(limitMs: number): Promise<(AgentStatus & { roundTripMs: number }) | undefined> {
    const channel = this.#spares.shift()?.take();
    if (channel === undefined) return undefined;
    this.#refillSoon();
    const timer = setTimeout(() => channel.destroy(), limitMs);
    const askedAt = performance.now();
    const answer = await askAgent(channel, { op: "status" });
    clearTimeout(timer);
    return answer?.kind === "status" ? { ...answer, roundTripMs: Math.round(performance.now() - askedAt) } : undefined;
  }

  /**
   * A byte stream to the agent, which is deployed and started when it is not there.
   * @throws RuntimeError from the deployment or of the lost connection
   */
  async openChannel(progress: (text: string) => void): Promise<Duplex> {
    const spare = this.#spares.shift();
    if (spare !== undefined) {
      this.#refillSoon();
      return spare.take();
    }
    const channel = await this.#openFresh(progress);
    this.#refillSoon();
    return channel;
  }

  async #openFresh(progress: (text: string) => void): Promise<Duplex> {
    const channel = await this.#reach(progress);
    if (this.#options.forwardAgent && this.#known !== undefined) await this.#offerAgent(this.#known, progress);
    return channel;
  }

  /** Whoever cannot have an ssh agent on the host still wants everything else. */
  async #offerAgent(address: AgentAddress, progress: (text: string) => void): Promise<void> {
    const problem = !this.#hasAuthAgent
      ? "there is none here (SSH_AUTH_SOCK is not set)"
      : this.#bridge === undefined
        ? await this.#authLink.hold(address)
        : this.#bridge.authProblem;
    if (problem === undefined) return;
    const notice = `Workloads on ${this.#options.host} get no ssh agent: ${problem}`;
    progress(notice);
    if (this.#lastNotice !== notice) console.error(new Date().toISOString(), notice);
    this.#lastNotice = notice;
  }

  async #reach(progress: (text: string) => void): Promise<Duplex> {
    const known = this.#known;
    if (known !== undefined) {
      try {
        return await this.#open(known);
      } catch (error) {
        if (!isRefusal(error)) throw error;
      }
      // It has ended since: it was idle, was killed, or its host restarted behind a proxy that kept the connection.
      if (this.#known === known) this.#forget();
    }
    const address = await this.locate(progress);
    try {
      return await this.#open(address);
    } catch (error) {
      if (!isRefusal(error)) throw error;
    }
    // The agent has just said that it listens, so it is the server that forbids such streams. Others may have found out.
    this.#bridge ??= new AgentBridge(this.#carrier, this.#options, this.#options.forwardAgent && this.#hasAuthAgent);
    return await this.#open(address);
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#refillTimer);
    for (const spare of this.#spares) spare.drop();
    this.#spares = [];
    this.#bridge?.close();
    this.#authLink.close();
  }

  async #open(address: AgentAddress): Promise<Duplex> {
    const channel = await this.#openings.add(() =>
      this.#bridge === undefined ? this.#carrier.openStream(address.socket) : this.#bridge.openStream(address),
    );
    channel.write(encodeLink(this.#link));
    return channel;
  }

  /**
   * Finds the agent, which is deployed and started when it is not there. Single flight: whoever asks while a deployment
   * is under way waits for that one.
   * @throws RuntimeError from the deployment or of the lost connection
   */
  locate(progress: (text: string) => void, found?: (facts: HostFacts) => void): Promise<AgentAddress> {
    this.#address ??= deployAgent(this.#carrier, this.#files, {
      ...this.#options,
      afterSession: this.#hasDeployed,
      progress,
      found,
    }).then(
      (address) => {
        this.#known = address;
        this.#hasDeployed = true;
        return address;
      },
      (error) => {
        this.#address = undefined;
        throw error;
      },
    );
    return this.#address;
  }

  #forget(): void {
    this.#address = undefined;
    this.#known = undefined;
    // What starts the next agent may need the only session that the server allows.
    this.#bridge?.close();
    this.#authLink.close();
  }

  /** Opening channels takes time from the operation that has just taken one, so it waits while there are some left. */
  #refillSoon(): void {
    if (this.#spares.length === 0) this.#refill();
    else this.#refillTimer ??= setTimeout(() => this.#refill(), REFILL_DELAY_MS);
  }

  #refill(): void {
    clearTimeout(this.#refillTimer);
    this.#refillTimer = undefined;
    const address = this.#known;
    while (address !== undefined && !this.#closed && this.#spares.length + this.#refilling < SPARE_CHANNELS) {
      this.#refilling += 1;
      this.#open(address)
        .then(
          (channel) => this.#keep(channel),
          () => {
            // The next dial that finds no spare meets the same problem and reports it.
          },
        )
        .finally(() => {
          this.#refilling -= 1;
        });
    }
  }

  #keep(channel: Duplex): void {
    if (this.#closed) {
      channel.destroy();
      return;
    }
    const spare = new SpareChannel(channel, () => {
      this.#spares = this.#spares.filter((other) => other !== spare);
    });
    this.#spares.push(spare);
  }
}

/** OpenSSH answers alike when nothing listens and when it does not forward; only a fresh agent tells them apart. */
function isRefusal(error: unknown): boolean {
  return error instanceof RuntimeError && (error.code === "stream-refused" || error.code === "forwarding-refused");
}

import type { Duplex } from "node:stream";
import PQueue from "p-queue";
import { resolveTarget, targetKey } from "../ssh/index.ts";
import type { HostStatus } from "../wire/dial.ts";
import { RuntimeError } from "../wire/errors.ts";
import type { AgentFiles } from "./agent-files.ts";
import { type ChannelRequest, Host, isTransient } from "./host.ts";
import { NetworkWatch } from "./network-watch.ts";

/** Handshakes under way at once over all hosts; each costs a core for some 50 ms. */
const HANDSHAKES_AT_ONCE = 4;

/** All SSH connections of this broker: one for each target, whatever alias or options it was named by. */
export class Pool {
  readonly #files: AgentFiles;
  readonly #handshakes = new PQueue({ concurrency: HANDSHAKES_AT_ONCE });
  readonly #hosts = new Map<string, Host>();
  /** Options as they came → target; asking ssh_config costs a process, so it is done once for each connection. */
  readonly #resolved = new Map<string, Host>();
  readonly #resolving = new Map<string, Promise<Host>>();

  readonly #watch: NetworkWatch;

  constructor(files: AgentFiles) {
    this.#files = files;
    this.#watch = new NetworkWatch(() => {
      for (const host of this.#all()) void host.examine();
    });
  }

  /**
   * Opens a stream to the agent of a target.
   * @throws RuntimeError the first permanent fault, or the last transient one when patience has run out
   */
  async openChannel(request: ChannelRequest): Promise<Duplex> {
    const { patienceMs, signal } = request;
    if (patienceMs === 0) return await this.#openChannel(request);
    const timeout = AbortSignal.timeout(patienceMs);
    const opening = this.#openChannel({ ...request, signal: AbortSignal.any([signal, timeout]) });
    return await Promise.race([opening, this.#impatience(request, timeout, opening)]);
  }

  status(): Promise<HostStatus[]> {
    return Promise.all(this.#all().map((host) => host.status()));
  }

  close(): void {
    this.#watch.stop();
    for (const host of this.#all()) host.close();
  }

  async #openChannel(request: ChannelRequest): Promise<Duplex> {
    const deadline = Date.now() + request.patienceMs;
    let host = await this.#host(request);
    for (;;) {
      try {
        return await host.openChannel(request);
      } catch (error) {
        if (!isTransient(error) || request.signal.aborted || Date.now() >= deadline) throw error;
      }
      try {
        // In another network ssh_config may lead to the same host another way.
        host = await this.#host(request);
      } catch {
        // While somebody edits it, say; the way that worked is as good as before.
      }
    }
  }

  #all(): Host[] {
    return [...this.#hosts.values()];
  }

  async #host(request: ChannelRequest): Promise<Host> {
    const asked = keyOf(request);
    const cached = this.#resolved.get(asked);
    // While a connection stands its configuration stands too; for a new one, ssh_config may have changed.
    if (cached?.connected) return cached;
    let resolving = this.#resolving.get(asked);
    if (resolving === undefined) {
      // Hundreds of wrappers ask at once when a link was lost.
      resolving = this.#resolve(request, asked).finally(() => this.#resolving.delete(asked));
      this.#resolving.set(asked, resolving);
    }
    return await resolving;
  }

  async #resolve({ options, caller }: ChannelRequest, asked: string): Promise<Host> {
    const target = await resolveTarget(options, caller);
    const key = targetKey(target);
    let host = this.#hosts.get(key);
    if (host === undefined) {
      host = new Host(target, this.#files, this.#handshakes);
      this.#hosts.set(key, host);
    }
    this.#resolved.set(asked, host);
    return host;
  }

  /** An attempt that everybody shares may take longer than one of them is ready to wait. */
  #impatience(request: ChannelRequest, timeout: AbortSignal, opening: Promise<Duplex>): Promise<never> {
    return new Promise((_resolve, reject) => {
      timeout.addEventListener("abort", () => {
        opening.then(
          (channel) => channel.destroy(),
          () => {},
        );
        const message = `${request.options.host} could not be reached in time`;
        const reason = this.#resolved.get(keyOf(request))?.lastError;
        reject(reason ?? new RuntimeError("connection-timeout", message));
      });
    });
  }
}

/** What a target is resolved from. */
function keyOf({ options, caller }: ChannelRequest): string {
  return JSON.stringify([options, caller]);
}

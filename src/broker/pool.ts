import type { Duplex } from "node:stream";
import PQueue from "p-queue";
import { resolveTarget, targetKey } from "../ssh/index.ts";
import type { HostStatus } from "../wire/dial.ts";
import type { AgentFiles } from "./agent-files.ts";
import { type ChannelRequest, Host } from "./host.ts";

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

  constructor(files: AgentFiles) {
    this.#files = files;
  }

  async openChannel(request: ChannelRequest): Promise<Duplex> {
    const host = await this.#host(request);
    return await host.openChannel(request);
  }

  status(): HostStatus[] {
    return [...this.#hosts.values()].map((host) => host.status());
  }

  close(): void {
    for (const host of this.#hosts.values()) host.close();
  }

  async #host(request: ChannelRequest): Promise<Host> {
    const asked = JSON.stringify([request.options, request.caller]);
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
}

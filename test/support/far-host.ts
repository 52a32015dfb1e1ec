import type { BuildHost } from "./build-host.ts";
import { type DelayingProxy, startDelayingProxy } from "./delaying-proxy.ts";
import type { RuntimeClient } from "./runtime.ts";

/** A build host behind a link of ours, with the workspace `w`. */
export interface FarHost {
  readonly proxy: DelayingProxy;
  readonly client: RuntimeClient;
  stop(): Promise<void>;
}

/** Short enough that a test need not wait for a dead link to be noticed. Milliseconds. */
export const KEEPALIVE_MS = 200;

export async function openFarHost(host: BuildHost, options: Record<string, unknown> = {}): Promise<FarHost> {
  const proxy = await startDelayingProxy({ target: host.sshd, oneWayDelayMs: 0 });
  const client = host.client({
    port: proxy.port,
    hostKeyPolicy: "accept-new",
    keepaliveIntervalMs: KEEPALIVE_MS,
    ...options,
  });
  await client.create("w", { kind: "directory", path: host.emptyFolder() });
  return { proxy, client, stop: () => proxy.stop() };
}

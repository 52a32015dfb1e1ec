import { RuntimeError } from "../wire/errors.ts";
import { type HostSpec, splitHost } from "./host.ts";

/** Hops of one chain. OpenSSH has no limit and starts processes without end when ssh_config goes in a circle. */
export const MAX_HOPS = 8;

/**
 * The hops of a ProxyJump in the order in which they are visited: `[user@]host[:port]` or `ssh://[user@]host[:port]`,
 * separated by commas (ssh_config(5)).
 *
 * @throws RuntimeError option-invalid, also for what could be taken for an option or for shell syntax
 */
export function parseProxyJump(text: string): HostSpec[] {
  const hops = text.split(",");
  if (hops.length > MAX_HOPS) {
    throw new RuntimeError(
      "option-invalid",
      `ProxyJump names ${hops.length} hosts; at most ${MAX_HOPS} are followed`,
      "Name fewer hosts",
    );
  }
  return hops.map((hop) => splitHop(hop, text));
}

function splitHop(hop: string, text: string): HostSpec {
  try {
    return splitHost(hop.replace(/^ssh:\/\/([^/]*)\/?$/i, "$1"));
  } catch (error) {
    throw new RuntimeError(
      "option-invalid",
      `ProxyJump "${text.slice(0, 200)}" has a hop that is no [user@]host[:port]`,
      "Correct ProxyJump in ssh_config, or the option proxyJump",
      { cause: error },
    );
  }
}

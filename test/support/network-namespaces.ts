import { execFileSync } from "node:child_process";

/** One namespace of a chain, and its address on the side of the one before. */
export interface NetworkNamespace {
  namespace: string;
  address: string;
}

/** RFC 2544, appendix C: addresses for tests that are no real network's. */
const NETWORK = "198.18";

/**
 * Network namespaces in a row, each joined to the one before by a pair of virtual interfaces, the first one to ours.
 * Nobody forwards, so that each is reached from its neighbours alone.
 *
 * @throws Error with the words of `ip` where this account or container may not do that; nothing is left then
 */
export class NamespaceChain {
  readonly namespaces: NetworkNamespace[] = [];
  readonly #name = `psr${process.pid}`;

  constructor(length: number) {
    // A test run that ends before `remove` leaves none behind.
    process.once("exit", () => this.remove());
    try {
      for (let index = 0; index < length; index += 1) this.#add(index);
    } catch (error) {
      this.remove();
      throw error;
    }
  }

  /** The interfaces go with their namespaces. */
  remove(): void {
    for (const { namespace } of this.namespaces.splice(0)) ip("netns", "delete", namespace);
  }

  #add(index: number): void {
    const namespace = `${this.#name}-${index}`;
    const before = this.namespaces.at(-1)?.namespace;
    const [near, far] = [`${this.#name}n${index}`, `${this.#name}f${index}`];
    const address = `${NETWORK}.${index}.2`;
    ip("netns", "add", namespace);
    this.namespaces.push({ namespace, address });
    const there = before === undefined ? [] : ["-n", before];
    ip(...there, "link", "add", near, "type", "veth", "peer", "name", far, "netns", namespace);
    ip(...there, "address", "add", `${NETWORK}.${index}.1/30`, "dev", near);
    ip(...there, "link", "set", near, "up");
    ip("-n", namespace, "address", "add", `${address}/30`, "dev", far);
    ip("-n", namespace, "link", "set", far, "up");
    ip("-n", namespace, "link", "set", "lo", "up");
  }
}

function ip(...args: string[]): void {
  execFileSync("ip", args, { stdio: ["ignore", "ignore", "pipe"] });
}

import { createReadStream } from "node:fs";
import { Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { CommandChannel } from "../ssh/index.ts";
import { RuntimeError } from "../wire/errors.ts";
import { findLocalNode, type LocalNode, nodeCache, nodePlatform } from "./local-node.ts";
import { type MissingNode, missingNodeCause } from "./missing-node.ts";

interface Place {
  host: string;
  node?: string | undefined;
  progress(text: string): void;
}

/** How often a transfer tells how far it is, in parts of the whole. */
const PROGRESS_STEP = 0.25;

/** Gives a host without node one of this machine's (the option provisionNode; receive-node-script.ts is the other side). */
export class NodeProvision {
  readonly #place: Place;
  readonly #platform: string;
  readonly #node: LocalNode;

  /**
   * @param found what the probe says about the host
   * @throws RuntimeError node-missing or node-too-old, when this machine has no node for that host
   */
  static async find(place: Place, found: MissingNode): Promise<NodeProvision> {
    const platform = nodePlatform(found);
    const node = await findLocalNode(platform);
    if (node !== undefined) return new NodeProvision(place, platform, node);
    throw new RuntimeError(
      found.old > 0 ? "node-too-old" : "node-missing",
      `${missingNodeCause(place, found)}, and this machine has none for ${platform} to send there`,
      `Install Node 18 or newer there, or put the node of an official build here: ${nodeCache(platform)}/node`,
    );
  }

  private constructor(place: Place, platform: string, node: LocalNode) {
    this.#place = place;
    this.#platform = platform;
    this.#node = node;
  }

  /** The line that says what can be had. */
  get offer(): string {
    return `${this.#node.sha256} ${this.#node.size}\n`;
  }

  /** Resolves when everything is sent, or cannot be; the host says what became of it. */
  async send(channel: CommandChannel): Promise<void> {
    const { path, size } = this.#node;
    const text = `Putting a node on ${this.#place.host} (${Math.round(size / 1e6)} MB)`;
    let sent = 0;
    const counter = new Transform({
      transform: (chunk: Buffer, _encoding, callback) => {
        const before = Math.floor(sent / size / PROGRESS_STEP);
        sent += chunk.length;
        const now = Math.floor(sent / size / PROGRESS_STEP);
        if (now !== before) this.#place.progress(`${text}: ${Math.round(now * PROGRESS_STEP * 100)} %`);
        callback(null, chunk);
      },
    });
    this.#place.progress(text);
    try {
      // Never more than was announced: what follows is read as something else.
      const file = createReadStream(path, { end: size - 1, highWaterMark: 256 * 1024 });
      await pipeline(file, counter, channel.stdin, { end: false });
    } catch {
      channel.close();
    }
  }

  /** @param said last line that a program on the host printed */
  refusal(reason: string, said: string): RuntimeError {
    const { host } = this.#place;
    const because = said === "" ? "" : ` (it said: ${said})`;
    switch (reason) {
      case "run":
        return new RuntimeError(
          "node-missing",
          `${host} has no node, and the one that was sent there from ${this.#node.path} does not run there${because}`,
          `Install Node 18 or newer there, or put the node of an official build here: ${nodeCache(this.#platform)}/node`,
        );
      case "no-hash":
        return new RuntimeError(
          "node-missing",
          `${host} has no node, and no program to check one that is sent there`,
          "Install Node 18 or newer there, or one of sha256sum, shasum and openssl",
        );
      case "damaged":
        return new RuntimeError("deploy-failed", `The node that was sent to ${host} arrived damaged`, "Try again");
      case "folder":
        return new RuntimeError(
          "root-not-writable",
          `The root folder on ${host} cannot be written${because}`,
          "Fix its permissions or free some space, or name another folder with the option root",
        );
      default:
        return new RuntimeError(
          "deploy-failed",
          `The node that was sent to ${host} could not be written there${because}`,
          "Free some space there, or name another folder with the option root",
        );
    }
  }
}

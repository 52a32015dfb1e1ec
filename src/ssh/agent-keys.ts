import type { Duplex } from "node:stream";
import ssh2, {
  type BaseAgent,
  type GetStreamCallback,
  type IdentityCallback,
  type ParsedKey,
  type SignCallback,
  type SigningRequestOptions,
} from "ssh2";

/** A key that the ssh agent holds, and an agent that offers nothing but this key. */
export interface AgentKey {
  publicBlob: Buffer;
  comment: string;
  agent: BaseAgent<ParsedKey>;
}

export interface AgentListing {
  keys: AgentKey[];
  /** Why there are none. */
  problem?: string;
}

/** An agent answers in milliseconds; a forwarded one whose connection is gone never does. */
const LIST_DEADLINE_MS = 3_000;
const MAX_COMMENT_CHARACTERS = 100;

/**
 * Keys of the agent at a socket, in the agent's order. Types that ssh2 does not know (FIDO, certificates) are not among
 * them. Never rejects: without its agent a person may still have a key file.
 */
export async function listAgentKeys(socketPath: string): Promise<AgentListing> {
  const agent = new InterruptibleAgent(socketPath);
  return new Promise((resolve) => {
    const timer = setTimeout(() => {
      resolve({ keys: [], problem: `the ssh agent at ${socketPath} does not answer` });
      agent.interrupt();
    }, LIST_DEADLINE_MS);
    agent.getIdentities((error, keys) => {
      clearTimeout(timer);
      if (error) {
        resolve({ keys: [], problem: `there is no ssh agent at ${socketPath}` });
        return;
      }
      const parsed = (keys ?? []) as ParsedKey[];
      resolve({
        keys: parsed.map((key) => ({
          publicBlob: key.getPublicSSH(),
          comment: (key.comment ?? "").slice(0, MAX_COMMENT_CHARACTERS),
          agent: new SingleKeyAgent(agent, key),
        })),
      });
    });
  });
}

/** ssh2 would keep the connection to an agent that does not answer for ever. */
class InterruptibleAgent extends ssh2.OpenSSHAgent {
  #stream: Duplex | undefined;

  override getStream(callback: GetStreamCallback): void {
    super.getStream((error, stream) => {
      this.#stream = stream;
      callback(error, stream);
    });
  }

  interrupt(): void {
    this.#stream?.destroy();
  }
}

/**
 * ssh2 offers all keys of an agent in one go and in the agent's order; a server hangs up after MaxAuthTries (6). With
 * one agent per key the order is ours, and what was offered is known.
 */
class SingleKeyAgent extends ssh2.BaseAgent<ParsedKey> {
  readonly #agent: BaseAgent;
  readonly #key: ParsedKey;

  constructor(agent: BaseAgent, key: ParsedKey) {
    super();
    this.#agent = agent;
    this.#key = key;
  }

  override getIdentities(callback: IdentityCallback<ParsedKey>): void {
    callback(undefined, [this.#key]);
  }

  /** `options.hash` chooses RSA-SHA2; without it an agent signs RSA with SHA-1, which servers of today refuse. */
  override sign(
    key: ParsedKey,
    data: Buffer,
    options: SigningRequestOptions | SignCallback,
    callback?: SignCallback,
  ): void {
    if (typeof options === "function") this.#agent.sign(key, data, options);
    else this.#agent.sign(key, data, options, callback);
  }
}

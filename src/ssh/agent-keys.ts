import type { Duplex } from "node:stream";
import ssh2, {
  type BaseAgent,
  type GetStreamCallback,
  type IdentityCallback,
  type ParsedKey,
  type SignCallback,
  type SigningRequestOptions,
} from "ssh2";
import type { RsaHash } from "./keychain-protocol.ts";

/** A key that the ssh agent holds, and an agent of ours that offers nothing but this key. */
export interface AgentKey {
  publicBlob: Buffer;
  comment: string;
  agent: SingleKeyAgent;
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
          agent: new SingleKeyAgent(key, signWith(agent, key)),
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

/** @param hash undefined but for RSA @throws Error with a reason for a person; it becomes `problem` */
export type KeySigner = (data: Buffer, hash: RsaHash | undefined) => Promise<Buffer>;

/**
 * ssh2 offers all keys of an agent in one go and in the agent's order; a server hangs up after MaxAuthTries (6). With
 * one agent per key the order is ours, and what was offered is known. The server is asked first whether the key would
 * do, so nothing is unlocked, and nobody is asked, for a key that it does not want.
 */
export class SingleKeyAgent extends ssh2.BaseAgent<ParsedKey> {
  readonly #key: ParsedKey;
  readonly #signer: KeySigner;
  #signed = false;
  #problem: string | undefined;

  constructor(key: ParsedKey, signer: KeySigner) {
    super();
    this.#key = key;
    this.#signer = signer;
  }

  /** The server wanted the key and has got a signature. */
  get signed(): boolean {
    return this.#signed;
  }

  /** Why there was no signature. */
  get problem(): string | undefined {
    return this.#problem;
  }

  override getIdentities(callback: IdentityCallback<ParsedKey>): void {
    callback(undefined, [this.#key]);
  }

  override sign(
    _key: ParsedKey,
    data: Buffer,
    options: SigningRequestOptions | SignCallback,
    callback?: SignCallback,
  ): void {
    const done = typeof options === "function" ? options : callback!;
    const hash = typeof options === "function" ? undefined : options.hash;
    this.#sign(data, hash).then(
      (signature) => {
        this.#signed = true;
        done(undefined, signature);
      },
      (error: Error) => {
        this.#problem = error.message;
        done(error);
      },
    );
  }

  async #sign(data: Buffer, hash: string | undefined): Promise<Buffer> {
    if (this.#key.type !== "ssh-rsa") return await this.#signer(data, undefined);
    // As OpenSSH since 8.8. ssh2 asks for SHA-1 when a server knows nothing else.
    if (hash !== "sha256" && hash !== "sha512") {
      throw new Error("is an RSA key, for which the server knows only signatures with SHA-1");
    }
    return await this.#signer(data, hash);
  }
}

function signWith(agent: BaseAgent, key: ParsedKey): KeySigner {
  return (data, hash) =>
    new Promise((resolve, reject) => {
      const done: SignCallback = (error, signature) => {
        if (error || signature === undefined) reject(new Error("was not used by the ssh agent", { cause: error }));
        else resolve(signature);
      };
      if (hash === undefined) agent.sign(key, data, done);
      else agent.sign(key, data, { hash }, done);
    });
}

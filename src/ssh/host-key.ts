import { createHash } from "node:crypto";
import { RuntimeError } from "../wire/errors.ts";
import { type HostKeyCheck, judge, type KnownHostKey, keyTypeOf, knownHostKeys, knownHostName } from "./known-hosts.ts";
import { appendHostKey } from "./known-hosts-append.ts";
import { filedAs, type SshTarget } from "./target.ts";

/**
 * Decides about the host keys of one connection. A key is judged at every key exchange, and a later exchange must show
 * the key of the first: a connection does not change hands.
 */
export class HostKeyGuard {
  readonly #target: SshTarget;
  readonly #host: string;
  readonly #port: number;
  readonly #knownKeys: KnownHostKey[];
  #accepted: Buffer | undefined;
  #isNew = false;

  constructor(target: SshTarget) {
    this.#target = target;
    const { host, port } = filedAs(target);
    this.#host = host;
    this.#port = port;
    this.#knownKeys = knownHostKeys(
      [...target.userKnownHostsFiles, ...target.globalKnownHostsFiles],
      this.#host,
      this.#port,
    );
  }

  /** Types of the keys that are known for this host; the server should present one of these. */
  get knownTypes(): string[] {
    const revoked = this.#knownKeys.filter((key) => key.revoked);
    const good = this.#knownKeys.filter((key) => !revoked.some(({ blob }) => blob.equals(key.blob)));
    return [...new Set(good.map((key) => key.type))];
  }

  /** The key that was found good, as a person compares it. */
  get acceptedKey(): string | undefined {
    return this.#accepted === undefined ? undefined : describe(this.#accepted);
  }

  get acceptedBlob(): Buffer | undefined {
    return this.#accepted;
  }

  /** The name under which the key of this host is filed. */
  get name(): string {
    return knownHostName(this.#host, this.#port);
  }

  /** What the files of known hosts said about a key when this connection was begun. */
  check(keyBlob: Buffer): HostKeyCheck {
    return judge(this.#knownKeys, keyBlob);
  }

  /** @returns why the key is refused, or undefined when it is good */
  refusal(keyBlob: Buffer): RuntimeError | undefined {
    if (this.#accepted !== undefined) {
      return this.#accepted.equals(keyBlob) ? undefined : this.#changedWithinConnection(keyBlob);
    }
    const check = this.check(keyBlob);
    if (check.verdict === "known" || (check.verdict === "unknown" && this.#target.hostKeyPolicy === "accept-new")) {
      this.#accepted = keyBlob;
      this.#isNew = check.verdict === "unknown";
      return undefined;
    }
    return this.#error(check, keyBlob);
  }

  /**
   * Files a key that was accepted as new. To be called after the key exchange, when the server has proved that it holds
   * the private half, and before anything of ours is sent.
   *
   * @throws RuntimeError host-key-unknown when it cannot be filed: the next connection would accept any key again
   */
  fileNewKey(): void {
    if (!this.#isNew || this.#accepted === undefined) return;
    const [file] = this.#target.userKnownHostsFiles;
    try {
      if (file === undefined) throw new Error("UserKnownHostsFile is none");
      appendHostKey(file, this.#host, this.#port, this.#accepted, this.#target.hashKnownHosts);
    } catch (error) {
      throw new RuntimeError(
        "host-key-unknown",
        `The new host key of ${this.name} cannot be filed${file === undefined ? "" : ` in ${file}`} (${(error as Error).message})`,
        "Make the file of known hosts writable, or name another one with the option knownHostsFile",
        { cause: error },
      );
    }
    this.#isNew = false;
  }

  #error(check: HostKeyCheck, keyBlob: Buffer): RuntimeError {
    const { name } = this;
    const place = check.file === undefined ? "the files of known hosts" : `${check.file}:${check.line}`;
    switch (check.verdict) {
      case "revoked":
        return new RuntimeError(
          "host-key-revoked",
          `The host key of ${name} (${describe(keyBlob)}) is marked as revoked in ${place}`,
          "Do not connect; ask the administrator of the host which key is valid",
        );
      case "changed":
        return new RuntimeError(
          "host-key-changed",
          `The host key of ${name} has changed: the server presents ${describe(keyBlob)}, ${place} has another. Somebody may be intercepting the connection`,
          `If the administrator confirms the new key, remove the old one with: ssh-keygen -f "${check.file}" -R "${name}"`,
        );
      default:
        return new RuntimeError(
          "host-key-unknown",
          `The host key of ${name} is not known: ${describe(keyBlob)}`,
          `To compare the fingerprint and accept the key, run: paseo-ssh-runtime trust ${this.#target.commandArguments}`,
        );
    }
  }

  #changedWithinConnection(keyBlob: Buffer): RuntimeError {
    return new RuntimeError(
      "host-key-changed",
      `The server at ${this.name} presents another host key within the connection: ${describe(keyBlob)}`,
      "Ask the administrator of the host",
    );
  }
}

/** SHA256 fingerprint as `ssh-keygen -l` prints it. */
export function fingerprint(keyBlob: Buffer): string {
  return `SHA256:${createHash("sha256").update(keyBlob).digest("base64").replace(/=+$/, "")}`;
}

function describe(keyBlob: Buffer): string {
  return `${keyTypeOf(keyBlob) ?? "unknown type"} ${fingerprint(keyBlob)}`;
}

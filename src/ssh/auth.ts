import type { AnyAuthMethod, AuthenticationType, NextAuthHandler } from "ssh2";
import { RuntimeError } from "../wire/errors.ts";
import { type AgentKey, type AgentListing, listAgentKeys } from "./agent-keys.ts";
import { fingerprint } from "./host-key.ts";
import { type Identity, readIdentity } from "./identity-files.ts";
import { keyTypeOf } from "./known-hosts.ts";
import { type SshTarget, targetName } from "./target.ts";

export interface AuthenticationAttempt {
  /** Names the key without its contents: file or agent comment, and fingerprint. */
  label: string;
  /** Public key in wire format. */
  publicBlob: Buffer;
  method: AnyAuthMethod;
}

export interface AuthenticationPlan {
  attempts: AuthenticationAttempt[];
  /** Keys that were passed over, and why. */
  notes: string[];
}

/**
 * Which keys to offer, in order. OpenSSH's order (pubkey_prepare in sshconnect2.c), but for one thing: files that
 * somebody configured come before those agent keys that nobody configured, because a stock server hangs up after six
 * keys and the configured one is the likely one.
 *
 * @param authSock the caller's SSH_AUTH_SOCK; the environment of this process is not looked at
 */
export async function planAuthentication(target: SshTarget, authSock: string | undefined): Promise<AuthenticationPlan> {
  const socketPath = agentSocket(target, authSock);
  const listing: AgentListing = socketPath === undefined ? { keys: [] } : await listAgentKeys(socketPath);
  const configured = target.identityFiles.map(readIdentity);
  const defaults = target.defaultIdentityFiles.map(readIdentity).filter((identity) => !identity.missing);

  const inAgent = (identities: Identity[]) =>
    identities.flatMap((identity) => agentKeyOf(identity, listing.keys) ?? []);
  const inFiles = (identities: Identity[]) =>
    identities.filter((identity) => agentKeyOf(identity, listing.keys) === undefined);
  const attempts = [
    ...inAgent(configured).map((key) => agentAttempt(target.user, key)),
    ...inFiles(configured).flatMap((identity) => fileAttempt(target.user, identity)),
    ...inAgent(defaults).map((key) => agentAttempt(target.user, key)),
    ...(target.identitiesOnly ? [] : listing.keys).map((key) => agentAttempt(target.user, key)),
    ...inFiles(defaults).flatMap((identity) => fileAttempt(target.user, identity)),
  ];
  return {
    attempts: withoutRepetition(attempts),
    notes: [
      ...(listing.problem === undefined ? [] : [listing.problem]),
      ...inFiles([...configured, ...defaults]).flatMap((identity) =>
        identity.problem ? [`${identity.path} ${identity.problem}`] : [],
      ),
      ...[...configured, ...defaults].flatMap(({ certificateFile }) =>
        certificateFile === undefined ? [] : [`${certificateFile} is a certificate, which this carrier cannot use`],
      ),
    ],
  };
}

/** Hands the planned keys to ssh2 one by one, and knows afterwards what was tried. */
export class Authenticator {
  readonly #target: SshTarget;
  readonly #plan: AuthenticationPlan;
  readonly #offered: string[] = [];
  #accepts: readonly string[] | undefined;
  #partial = false;
  #triedNone = false;
  #exhausted = false;

  constructor(target: SshTarget, plan: AuthenticationPlan) {
    this.#target = target;
    this.#plan = plan;
  }

  get hasOffered(): boolean {
    return this.#offered.length > 0;
  }

  /** Nothing is left to try. */
  get exhausted(): boolean {
    return this.#exhausted;
  }

  /** What was tried last; after a login, what let us in. */
  get lastTried(): string {
    return this.#triedNone ? "no key" : (this.#offered.at(-1) ?? "no key");
  }

  /** The `authHandler` of ssh2. */
  readonly handler = (accepts: AuthenticationType[] | null, partial: boolean | null, next: NextAuthHandler): void => {
    if (accepts !== null) this.#accepts = accepts;
    this.#partial ||= partial === true;
    const attempt = this.#acceptsKeys() ? this.#plan.attempts[this.#offered.length] : undefined;
    if (attempt !== undefined) {
      this.#offered.push(attempt.label);
      next(attempt.method);
    } else if (!this.#triedNone && !this.#partial) {
      // Last: some servers let in whom they know by other means, and all say now which methods they would accept.
      this.#triedNone = true;
      next({ type: "none", username: this.#target.user });
    } else {
      this.#exhausted = true;
      // ssh2 documents false for "no more methods", but its types do not have it.
      next(false as unknown as AuthenticationType);
    }
  };

  /** @param serverText what the server said when it hung up */
  failure(serverText?: string): RuntimeError {
    const offered = this.#offered.length === 0 ? "there was no key to offer" : `offered: ${this.#offered.join("; ")}`;
    const said = serverText ? ` (the server said: ${serverText.slice(0, 200)})` : "";
    const accepts = this.#accepts?.length ? `; the server accepts ${this.#accepts.join(", ")}` : "";
    const notes = this.#plan.notes.length === 0 ? "" : `. Not used: ${this.#plan.notes.join("; ")}`;
    return new RuntimeError(
      "authentication-failed",
      this.#partial
        ? `${targetName(this.#target)} accepted a key but wants a second method as well${accepts}`
        : `${targetName(this.#target)} accepted no key; ${offered}${accepts}${said}`,
      `Add the right key to the ssh agent with ssh-add, or name its file with the option identityFile${notes}`,
    );
  }

  #acceptsKeys(): boolean {
    return !this.#partial && (this.#accepts?.includes("publickey") ?? true);
  }
}

function agentSocket({ identityAgent }: SshTarget, authSock: string | undefined): string | undefined {
  switch (identityAgent.kind) {
    case "none":
      return undefined;
    case "socket":
      return identityAgent.path;
    case "caller":
      return authSock || undefined;
  }
}

function agentKeyOf(identity: Identity, keys: AgentKey[]): AgentKey | undefined {
  return keys.find((key) => identity.publicBlob?.equals(key.publicBlob));
}

function agentAttempt(username: string, key: AgentKey): AuthenticationAttempt {
  const label = `agent key "${key.comment}" (${describe(key.publicBlob)})`;
  return { label, publicBlob: key.publicBlob, method: { type: "agent", username, agent: key.agent } };
}

function fileAttempt(username: string, { path, privateKey, publicBlob }: Identity): AuthenticationAttempt[] {
  if (privateKey === undefined || publicBlob === undefined) return [];
  return [
    {
      label: `${path} (${describe(publicBlob)})`,
      publicBlob,
      method: { type: "publickey", username, key: privateKey },
    },
  ];
}

function describe(publicBlob: Buffer): string {
  return `${keyTypeOf(publicBlob)} ${fingerprint(publicBlob)}`;
}

/** A key is offered once, at its first place. */
function withoutRepetition(attempts: AuthenticationAttempt[]): AuthenticationAttempt[] {
  return attempts.filter(
    ({ publicBlob }, index) => attempts.findIndex((other) => other.publicBlob.equals(publicBlob)) === index,
  );
}

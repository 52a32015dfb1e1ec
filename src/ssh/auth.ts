import ssh2, { type ParsedKey } from "ssh2";
import { type AgentKey, type AgentListing, type KeySigner, listAgentKeys, SingleKeyAgent } from "./agent-keys.ts";
import { fingerprint } from "./host-key.ts";
import { type Identity, readIdentity } from "./identity-files.ts";
import type { Keychain } from "./keychain.ts";
import { keyTypeOf } from "./known-hosts.ts";
import { type SshTarget, targetName } from "./target.ts";

export interface AuthenticationAttempt {
  /** Names the key without its contents: file or agent comment, and fingerprint. */
  label: string;
  /** Public key in wire format. */
  publicBlob: Buffer;
  /** Signs with this key alone, and knows afterwards what became of it. */
  agent: SingleKeyAgent;
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
 * @param keychain has the passphrases of key files; without one, files with a passphrase are passed over
 */
export async function planAuthentication(
  target: SshTarget,
  authSock: string | undefined,
  keychain?: Keychain,
): Promise<AuthenticationPlan> {
  const socketPath = agentSocket(target, authSock);
  const listing: AgentListing = socketPath === undefined ? { keys: [] } : await listAgentKeys(socketPath);
  const configured = target.identityFiles.map(readIdentity);
  const defaults = target.defaultIdentityFiles.map(readIdentity).filter((identity) => !identity.missing);

  const inAgent = (identities: Identity[]) =>
    identities.flatMap((identity) => agentKeyOf(identity, listing.keys) ?? []);
  const inFiles = (identities: Identity[]) =>
    identities.filter((identity) => agentKeyOf(identity, listing.keys) === undefined);
  const attempts = [
    ...inAgent(configured).map((key) => agentAttempt(key)),
    ...inFiles(configured).flatMap((identity) => fileAttempt(target, identity, keychain)),
    ...inAgent(defaults).map((key) => agentAttempt(key)),
    ...(target.identitiesOnly ? [] : listing.keys).map((key) => agentAttempt(key)),
    ...inFiles(defaults).flatMap((identity) => fileAttempt(target, identity, keychain)),
  ];
  return {
    attempts: withoutRepetition(attempts),
    notes: [
      ...(listing.problem === undefined ? [] : [listing.problem]),
      ...inFiles([...configured, ...defaults]).flatMap((identity) =>
        identity.problem === undefined || fileAttempt(target, identity, keychain).length > 0
          ? []
          : [`${identity.path} ${identity.problem}`],
      ),
      ...[...configured, ...defaults].flatMap(({ certificateFile }) =>
        certificateFile === undefined ? [] : [`${certificateFile} is a certificate, which this carrier cannot use`],
      ),
    ],
  };
}

/**
 * Path of the ssh agent that serves this target.
 * @param authSock the caller's SSH_AUTH_SOCK
 * @returns undefined when there is none
 */
export function agentSocket({ identityAgent }: SshTarget, authSock: string | undefined): string | undefined {
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

function agentAttempt({ publicBlob, comment, agent }: AgentKey): AuthenticationAttempt {
  return { label: `agent key "${comment}" (${describe(publicBlob)})`, publicBlob, agent };
}

function fileAttempt(target: SshTarget, identity: Identity, keychain: Keychain | undefined): AuthenticationAttempt[] {
  const { path, privateKey, publicBlob, encrypted } = identity;
  const publicKey = publicBlob && parsePublic(publicBlob);
  const signer =
    privateKey !== undefined
      ? signWithFile(privateKey)
      : encrypted && keychain !== undefined
        ? signWithPassphrase(target, path, keychain)
        : undefined;
  if (publicBlob === undefined || publicKey === undefined || signer === undefined) return [];
  return [{ label: `${path} (${describe(publicBlob)})`, publicBlob, agent: new SingleKeyAgent(publicKey, signer) }];
}

function signWithFile(key: ParsedKey): KeySigner {
  return async (data, hash) => {
    // ssh2 returns an Error, though its types do not have it.
    const signature: Buffer | Error = key.sign(data, hash);
    if (signature instanceof Error) throw new Error("could not be used to sign", { cause: signature });
    return signature;
  };
}

function signWithPassphrase(target: SshTarget, keyFile: string, keychain: Keychain): KeySigner {
  const store = `paseo-ssh-runtime auth set ${targetName(target)} --passphrase ${keyFile}`;
  return async (data, hash) => {
    const reply = await keychain.ask({ type: "sign", keyFile, data: data.toString("base64"), hash }).catch((error) => {
      throw new Error(`is protected by a passphrase: ${error.message}`);
    });
    if (reply.type === "signature") return Buffer.from(reply.signature, "base64");
    throw new Error(
      reply.type === "wrong"
        ? `is protected by another passphrase than the one that is stored (${store})`
        : `is protected by a passphrase that is not stored, or the keychain is locked (${store})`,
    );
  };
}

function parsePublic(publicBlob: Buffer): ParsedKey | undefined {
  const key = ssh2.utils.parseKey(`${keyTypeOf(publicBlob)} ${publicBlob.toString("base64")}`);
  return key instanceof Error ? undefined : key;
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

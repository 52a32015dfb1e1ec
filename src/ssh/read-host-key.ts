import { RuntimeError } from "../wire/errors.ts";
import type { ConnectOptions } from "./connect-options.ts";
import { fingerprint, HostKeyGuard } from "./host-key.ts";
import { keyTypeOf } from "./known-hosts.ts";
import { randomart } from "./randomart.ts";
import { connectSsh2 } from "./ssh2-connect.ts";
import type { SshTarget } from "./target.ts";

/** The key of a host, for a person who decides about it. */
export interface HostKey {
  /** Name under which it is filed. */
  name: string;
  /** Such as `ssh-ed25519`. */
  type: string;
  /** As `ssh-keygen -l` prints it. */
  fingerprint: string;
  /** As `ssh-keygen -lv` prints it. */
  randomart: string;
  /** The key in wire format. */
  blob: Buffer;
  /** Where it is on file already, as `file:line`. */
  knownAt?: string;
}

/**
 * Connects as an operation would, as far as the key exchange, in which the server proves that it holds the key. Nothing
 * of ours is sent after it to that server; the hosts on the way to it are logged in to as always.
 *
 * @throws RuntimeError host-key-changed, host-key-revoked, and what a connection fails with
 */
export async function readHostKey(target: SshTarget, options: ConnectOptions = {}): Promise<HostKey> {
  const guard = new KeyExchangeOnly(withoutLogin(target));
  try {
    await connectSsh2(withoutLogin(target), options, guard);
  } catch (error) {
    if (!guard.isProven) throw error;
  }
  const blob = guard.acceptedBlob!;
  const { verdict, file, line } = guard.check(blob);
  const type = keyTypeOf(blob) ?? "unknown type";
  return {
    name: guard.name,
    type,
    fingerprint: fingerprint(blob),
    randomart: randomart(type, blob),
    blob,
    ...(verdict === "known" ? { knownAt: `${file}:${line}` } : {}),
  };
}

/**
 * Files a key that a person has accepted. The files are read again, since the person may have taken hours: what has been
 * filed meanwhile is never contradicted.
 *
 * @param keyBlob from `readHostKey`
 * @returns the file; undefined when somebody else has filed the same key meanwhile
 * @throws RuntimeError host-key-changed, host-key-revoked, host-key-unknown when it cannot be filed
 */
export function trustHostKey(target: SshTarget, keyBlob: Buffer): string | undefined {
  const guard = new HostKeyGuard({ ...target, hostKeyPolicy: "accept-new" });
  const refusal = guard.refusal(keyBlob);
  if (refusal !== undefined) throw refusal;
  if (guard.check(keyBlob).verdict === "known") return undefined;
  guard.fileNewKey();
  return target.userKnownHostsFiles[0];
}

/** Accepts a new key, and ends the attempt where a connection would file it. */
class KeyExchangeOnly extends HostKeyGuard {
  isProven = false;

  override fileNewKey(): never {
    this.isProven = true;
    throw new RuntimeError("cancelled", "The connection was made for the host key alone");
  }
}

/** What belongs to the login alone must not stand in the way, and no key is read for a login that does not come. */
function withoutLogin(target: SshTarget): SshTarget {
  return {
    ...target,
    hostKeyPolicy: "accept-new",
    identityAgent: { kind: "none" },
    identityFiles: [],
    defaultIdentityFiles: [],
    certificateFiles: [],
    forwardAgent: false,
    carrier: "ssh2",
  };
}

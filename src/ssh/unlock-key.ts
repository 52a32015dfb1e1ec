import { createPrivateKey, sign } from "node:crypto";
import ssh2, { type ParsedKey } from "ssh2";
import type { RsaHash } from "./keychain-protocol.ts";

/** Signs as ssh2's keys do: the raw signature, ECDSA as ASN.1. */
export type Signer = (data: Buffer, hash: RsaHash | undefined) => Buffer;

/** NIST curves by OpenSSL's names, with the hash that RFC 5656, 6.2.1, gives them. */
const CURVE_HASHES: Readonly<Record<string, string>> = {
  prime256v1: "sha256",
  secp384r1: "sha384",
  secp521r1: "sha512",
};

/**
 * Opens a private key with its passphrase. That takes up to half a second of computing (bcrypt in OpenSSH's format).
 *
 * @param text the whole key file
 * @returns undefined when the passphrase is wrong, or the format is not one of ours
 */
export function unlockKey(text: string, passphrase: string): Signer | undefined {
  return /BEGIN ENCRYPTED PRIVATE KEY/.test(text) ? unlockPkcs8(text, passphrase) : unlockWithSsh2(text, passphrase);
}

function unlockWithSsh2(text: string, passphrase: string): Signer | undefined {
  let key: ParsedKey | Error | undefined;
  try {
    key = ssh2.utils.parseKey(text, passphrase);
  } catch {
    return undefined;
  }
  if (key === undefined || key instanceof Error || !key.isPrivateKey()) return undefined;
  const unlocked = key;
  return (data, hash) => {
    const signature = unlocked.sign(data, hash);
    if (signature instanceof Error) throw signature;
    return signature;
  };
}

/** `ssh-keygen -m PKCS8` writes it, and ssh2 does not read it. */
function unlockPkcs8(text: string, passphrase: string): Signer | undefined {
  try {
    const key = createPrivateKey({ key: text, passphrase });
    const curveHash = CURVE_HASHES[key.asymmetricKeyDetails?.namedCurve ?? ""];
    return (data, hash) => sign(hash ?? curveHash ?? null, data, key);
  } catch {
    return undefined;
  }
}

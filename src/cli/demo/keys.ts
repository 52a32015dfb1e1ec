import ssh2, { type ParsedKey } from "ssh2";

export interface KeyPair {
  /** OpenSSH's format, without a passphrase. */
  privateText: string;
  /** Type and base64, as in `id_ecdsa.pub` and known_hosts. */
  publicLine: string;
  publicKey: ParsedKey;
}

/** A key pair that nobody has seen before. ECDSA: of 2000 ed25519 pairs that ssh2 1.17 makes, 8 cannot be read back. */
export function makeKeyPair(): KeyPair {
  const pair = ssh2.utils.generateKeyPairSync("ecdsa", { bits: 256 });
  const publicKey = ssh2.utils.parseKey(pair.public);
  if (publicKey instanceof Error) throw publicKey;
  return { privateText: pair.private, publicLine: pair.public.trim(), publicKey };
}

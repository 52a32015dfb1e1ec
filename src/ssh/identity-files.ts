import { existsSync, readFileSync, type Stats, statSync } from "node:fs";
import { isAbsolute } from "node:path";
import ssh2, { type ParsedKey } from "ssh2";
import { keyTypeOf } from "./known-hosts.ts";

/** What one identity file has to offer. A file that is of no use says why, and never ends an attempt to log in. */
export interface Identity {
  path: string;
  /** Public key in wire format; known for an encrypted key too, and when only the `.pub` file exists. */
  publicBlob?: Buffer;
  /** Set when we can sign with it. */
  privateKey?: ParsedKey;
  /** A passphrase stands between us and the private key. */
  encrypted: boolean;
  /** Why there is no `privateKey`. */
  problem?: string;
  /** The file does not exist, and neither does its `.pub`. */
  missing: boolean;
  /** A certificate lies beside the key; the server may expect it. */
  certificateFile?: string;
}

/** The largest RSA keys have some 13 KB. */
const MAX_KEY_BYTES = 64 * 1024;

export function readIdentity(path: string): Identity {
  const certificateFile = `${path}-cert.pub`;
  const identity: Identity = { path, encrypted: false, missing: false };
  if (isAbsolute(path) && existsSync(certificateFile)) identity.certificateFile = certificateFile;

  const text = readKeyFile(path);
  if (typeof text !== "string") {
    const publicBlob = publicBlobOf(`${path}.pub`);
    return {
      ...identity,
      problem: text.problem,
      missing: text.missing && publicBlob === undefined,
      ...(publicBlob && { publicBlob }),
    };
  }
  const key = parse(text);
  if (key === undefined) {
    const publicBlob = publicBlobOf(`${path}.pub`) ?? openSshPublicBlob(text);
    const encrypted = isEncrypted(text);
    const problem = encrypted ? "is protected by a passphrase" : "is in a format that is not supported";
    return { ...identity, encrypted, problem, ...(publicBlob && { publicBlob }) };
  }
  const publicBlob = key.getPublicSSH();
  if (!key.isPrivateKey()) return { ...identity, publicBlob, problem: "holds a public key only" };
  return { ...identity, publicBlob, privateKey: key };
}

/** @returns the file's text, or why it cannot be used */
export function readKeyFile(path: string): string | { problem: string; missing: boolean } {
  if (!isAbsolute(path)) return { problem: "is not an absolute path", missing: false };
  let stat: Stats;
  try {
    stat = statSync(path);
  } catch {
    return { problem: "does not exist", missing: true };
  }
  if (!stat.isFile() || stat.size > MAX_KEY_BYTES) return { problem: "is not a key file", missing: false };
  try {
    const text = readFileSync(path, "utf8");
    // OpenSSH's rule (sshkey_perm_ok): a private key of one's own that others can reach is not used.
    const exposed = stat.uid === process.getuid?.() && (stat.mode & 0o077) !== 0;
    if (exposed && /PRIVATE KEY|PuTTY-User-Key-File/.test(text))
      return { problem: "can be read by others (chmod 600)", missing: false };
    return text;
  } catch {
    return { problem: "cannot be read", missing: false };
  }
}

function publicBlobOf(path: string): Buffer | undefined {
  const text = readKeyFile(path);
  if (typeof text !== "string") return undefined;
  // Types that ssh2 cannot parse (FIDO) are worth knowing too.
  const [type, base64 = ""] = text.split(/\s+/);
  const blob = Buffer.from(base64, "base64");
  return keyTypeOf(blob) === type ? blob : parse(text)?.getPublicSSH();
}

function parse(text: string): ParsedKey | undefined {
  try {
    // For damaged files ssh2 returns an error, returns nothing or throws.
    const key: ParsedKey | Error | undefined = ssh2.utils.parseKey(text);
    return key === undefined || key instanceof Error ? undefined : key;
  } catch {
    return undefined;
  }
}

function isEncrypted(text: string): boolean {
  const data = openSshData(text);
  if (data !== undefined) return readString(data, 0)?.content.toString("latin1") !== "none";
  return /BEGIN ENCRYPTED PRIVATE KEY|Proc-Type: 4,ENCRYPTED|^Encryption: (?!none)/m.test(text);
}

/** The public key stands in clear before the encrypted part (OpenSSH's PROTOCOL.key). */
function openSshPublicBlob(text: string): Buffer | undefined {
  const data = openSshData(text);
  if (data === undefined) return undefined;
  const cipher = readString(data, 0);
  const kdf = cipher && readString(data, cipher.end);
  const kdfOptions = kdf && readString(data, kdf.end);
  // A count of keys, always one, precedes the key.
  return kdfOptions && readString(data, kdfOptions.end + 4)?.content;
}

function openSshData(text: string): Buffer | undefined {
  const armored = /-----BEGIN OPENSSH PRIVATE KEY-----([A-Za-z0-9+/=\s]+)-----END OPENSSH PRIVATE KEY-----/.exec(text);
  if (armored === null) return undefined;
  const data = Buffer.from(armored[1]!, "base64");
  const magic = "openssh-key-v1\0";
  return data.toString("latin1", 0, magic.length) === magic ? data.subarray(magic.length) : undefined;
}

function readString(data: Buffer, at: number): { content: Buffer; end: number } | undefined {
  if (at + 4 > data.length) return undefined;
  const end = at + 4 + data.readUInt32BE(at);
  return end > data.length ? undefined : { content: data.subarray(at + 4, end), end };
}

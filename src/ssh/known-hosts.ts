import { createHmac } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { RuntimeError } from "../wire/errors.ts";
import { matchesPatternList } from "./patterns.ts";

/** Reads files of known hosts: sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT". */

const MAX_FILE_BYTES = 16 * 1024 * 1024;
const DEFAULT_PORT = 22;

/** A key that a file gives for the host in question. */
export interface KnownHostKey {
  /** Key type, such as `ssh-ed25519`. */
  type: string;
  blob: Buffer;
  revoked: boolean;
  /** The line names the host without its port, although the port is not 22. */
  withoutPort: boolean;
  file: string;
  /** From 1. */
  line: number;
}

export interface HostKeyCheck {
  verdict: "known" | "unknown" | "changed" | "revoked";
  /** The line that decided; absent when no line names the host. */
  file?: string;
  line?: number;
  /** Types of the keys known for this host, in the order of the files. */
  knownTypes: string[];
}

/** The name under which a host is filed: `host`, or `[host]:port` when the port is not 22. */
export function knownHostName(host: string, port: number): string {
  const name = host.toLowerCase();
  return port === DEFAULT_PORT ? name : `[${name}]:${port}`;
}

/**
 * Compares a host key with the files, as OpenSSH's client does:
 * - a revoked key is refused wherever the line stands;
 * - a host with any known key counts as changed when it presents none of them, also when only the type differs, since
 *   whoever sits in between chooses which type to present;
 * - for a port other than 22, a key filed under the plain name is good as well, but a different one there says nothing.
 *
 * @param host host name or HostKeyAlias; with an alias, pass port 22, because OpenSSH files aliases without a port
 * @param keyBlob the key in wire format (RFC 4253, 6.6)
 */
export function checkHostKey(files: readonly string[], host: string, port: number, keyBlob: Buffer): HostKeyCheck {
  return judge(knownHostKeys(files, host, port), keyBlob);
}

/** All keys that the files give for a host, revoked ones included. Files that do not exist are passed over. */
export function knownHostKeys(files: readonly string[], host: string, port: number): KnownHostKey[] {
  const name = knownHostName(host, port);
  const plainName = knownHostName(host, DEFAULT_PORT);
  return files.flatMap((file) => {
    const keys: KnownHostKey[] = [];
    readLines(file).forEach((text, index) => {
      const entry = parseLine(text);
      if (entry === undefined) return;
      const exact = entry.names(name);
      if (!exact && (name === plainName || !entry.names(plainName))) return;
      keys.push({
        type: entry.type,
        blob: entry.blob,
        revoked: entry.revoked,
        withoutPort: !exact,
        file,
        line: index + 1,
      });
    });
    return keys;
  });
}

/** Whether a certificate authority is trusted to vouch for this host (a line with `@cert-authority`). */
export function trustsAuthority(files: readonly string[], host: string, port: number): boolean {
  const names = [knownHostName(host, port), knownHostName(host, DEFAULT_PORT)];
  return files.some((file) =>
    readLines(file).some((text) => {
      const [marker, hosts] = text.trim().split(/[ \t]+/);
      return marker === "@cert-authority" && hosts !== undefined && names.some(matcherOf(hosts));
    }),
  );
}

export function judge(keys: readonly KnownHostKey[], keyBlob: Buffer): HostKeyCheck {
  const valid = keys.filter((key) => !key.revoked);
  const knownTypes = [...new Set(valid.map((key) => key.type))];
  const same = (key: KnownHostKey) => key.blob.equals(keyBlob);
  const decide = (verdict: HostKeyCheck["verdict"], key: KnownHostKey): HostKeyCheck => ({
    verdict,
    file: key.file,
    line: key.line,
    knownTypes,
  });

  const revoked = keys.find((key) => key.revoked && same(key));
  if (revoked !== undefined) return decide("revoked", revoked);
  const known = valid.find(same);
  if (known !== undefined) return decide("known", known);
  const candidates = valid.filter((key) => !key.withoutPort);
  // The line of the same type is the one that a person has to look at.
  const other = candidates.find((key) => key.type === keyTypeOf(keyBlob)) ?? candidates[0];
  return other === undefined ? { verdict: "unknown", knownTypes } : decide("changed", other);
}

/** The type that a key in wire format names itself, or undefined when the bytes are no key. */
export function keyTypeOf(blob: Buffer): string | undefined {
  if (blob.length < 4) return undefined;
  const length = blob.readUInt32BE(0);
  return length === 0 || length > 100 || blob.length < 4 + length ? undefined : blob.toString("latin1", 4, 4 + length);
}

/**
 * A line may be cut off: a writer's disk was full, or it is being written at this moment. A key is its type and one
 * field or more behind it, each with its length in front.
 */
function isWhole(blob: Buffer): boolean {
  let at = 0;
  let fields = 0;
  for (; at + 4 <= blob.length; fields += 1) at += 4 + blob.readUInt32BE(at);
  return at === blob.length && fields > 1;
}

interface ParsedLine {
  names(host: string): boolean;
  type: string;
  blob: Buffer;
  revoked: boolean;
}

/** Lines that are no plain or revoked key (comments, certificate authorities, SSH-1 keys, damage) give undefined. */
function parseLine(text: string): ParsedLine | undefined {
  const fields = text.trim().split(/[ \t]+/);
  const marker = fields[0]?.startsWith("@") ? fields.shift() : undefined;
  const [hosts, type, base64] = fields;
  if (hosts === undefined || hosts.startsWith("#") || type === undefined || base64 === undefined) return undefined;
  // A certificate authority vouches for certificates; its own key is no host's key.
  if (marker !== undefined && marker !== "@revoked") return undefined;
  const blob = Buffer.from(base64, "base64");
  if (keyTypeOf(blob) !== type || !isWhole(blob)) return undefined;
  return {
    names: matcherOf(hosts),
    type,
    blob,
    revoked: marker === "@revoked",
  };
}

function matcherOf(hosts: string): (host: string) => boolean {
  return hosts.startsWith("|") ? hashMatcher(hosts) : listMatcher(hosts);
}

function listMatcher(hosts: string): (host: string) => boolean {
  const patterns = hosts.toLowerCase().split(",");
  return (host) => matchesPatternList(host, patterns);
}

/** `|1|salt|hash`: HMAC-SHA1 of the name, keyed with the salt, both in base64. */
function hashMatcher(hosts: string): (host: string) => boolean {
  const [, version, salt, hash] = hosts.split("|");
  if (version !== "1" || salt === undefined || hash === undefined) return () => false;
  const key = Buffer.from(salt, "base64");
  const expected = Buffer.from(hash, "base64");
  return (host) => createHmac("sha1", key).update(host).digest().equals(expected);
}

function readLines(file: string): string[] {
  let size: number;
  try {
    size = statSync(file).size;
  } catch {
    return [];
  }
  if (size > MAX_FILE_BYTES) {
    throw new RuntimeError(
      "option-invalid",
      `The file of known hosts ${file} is larger than ${MAX_FILE_BYTES} bytes`,
      "Remove old entries",
    );
  }
  try {
    return readFileSync(file, "utf8").split("\n");
  } catch {
    // A folder, or a file that this account may not read: as for ssh, it names no hosts.
    return [];
  }
}

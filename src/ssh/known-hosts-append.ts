import { createHmac, randomBytes } from "node:crypto";
import { closeSync, constants, fstatSync, ftruncateSync, mkdirSync, openSync, readSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { keyTypeOf, knownHostName } from "./known-hosts.ts";

const SALT_BYTES = 20;

/**
 * Files a host's key, as `ssh` does for StrictHostKeyChecking=accept-new. Synchronous, and one write at the end of the
 * file: several processes may add lines at the same time, and none may split another's. The file is not replaced by a
 * new one, because that would lose what `ssh` appends meanwhile, and links and owners with it.
 *
 * @param host host name or HostKeyAlias; with an alias, pass port 22
 * @param keyBlob the key in wire format
 * @param hash write the name hashed (ssh_config's HashKnownHosts)
 * @throws Error when the folder or file cannot be made or written
 */
export function appendHostKey(file: string, host: string, port: number, keyBlob: Buffer, hash = false): void {
  const type = keyTypeOf(keyBlob);
  if (type === undefined) throw new TypeError("Not a key in wire format");
  const name = knownHostName(host, port);
  const line = `${hash ? hashed(name) : name} ${type} ${keyBlob.toString("base64")}\n`;

  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const descriptor = openSync(file, constants.O_RDWR | constants.O_APPEND | constants.O_CREAT, 0o600);
  try {
    append(descriptor, Buffer.from(endsWithNewline(descriptor) ? line : `\n${line}`));
  } finally {
    closeSync(descriptor);
  }
}

/** All of it or nothing: of a key on a full disk, a part would stand there as another key of that host. */
function append(descriptor: number, bytes: Buffer): void {
  const written = writeSync(descriptor, bytes);
  if (written === bytes.length) return;
  const { size } = fstatSync(descriptor);
  const last = Buffer.alloc(written);
  readSync(descriptor, last, 0, written, size - written);
  // Somebody else may have found room behind it; then it stays, and is no key to whoever reads the file.
  if (last.equals(bytes.subarray(0, written))) ftruncateSync(descriptor, size - written);
  throw new Error("the disk is full");
}

function hashed(name: string): string {
  const salt = randomBytes(SALT_BYTES);
  return `|1|${salt.toString("base64")}|${createHmac("sha1", salt).update(name).digest("base64")}`;
}

/** Editors leave files whose last line has no newline; a key must not be glued to it. */
function endsWithNewline(descriptor: number): boolean {
  const { size } = fstatSync(descriptor);
  if (size === 0) return true;
  const last = Buffer.alloc(1);
  readSync(descriptor, last, 0, 1, size - 1);
  return last[0] === 0x0a;
}

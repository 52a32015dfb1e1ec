import { createHash } from "node:crypto";

/**
 * The picture of a key that people compare at a glance: OpenSSH's "drunken bishop" (fingerprint_randomart in sshkey.c),
 * byte for byte what `ssh-keygen -lv` prints.
 */

const WIDTH = 17;
const HEIGHT = 9;
/** How often a field was visited; the last two mark the start and the end. */
const SYMBOLS = " .o+=*BOX@%&#/^SE";
const START = SYMBOLS.length - 2;
const END = SYMBOLS.length - 1;

/** What `ssh-keygen -l` calls the types, where the curve's name has the size in it. */
const NAMES: Record<string, { name: string; bits?: number }> = {
  "ssh-ed25519": { name: "ED25519", bits: 256 },
  "sk-ssh-ed25519@openssh.com": { name: "ED25519-SK", bits: 256 },
  "ecdsa-sha2-nistp256": { name: "ECDSA", bits: 256 },
  "ecdsa-sha2-nistp384": { name: "ECDSA", bits: 384 },
  "ecdsa-sha2-nistp521": { name: "ECDSA", bits: 521 },
  "sk-ecdsa-sha2-nistp256@openssh.com": { name: "ECDSA-SK", bits: 256 },
  "ssh-rsa": { name: "RSA" },
};

/**
 * @param type type of the key, as the key names itself
 * @param keyBlob the key in wire format (RFC 4253, 6.6)
 * @returns eleven lines, without a newline at the end
 */
export function randomart(type: string, keyBlob: Buffer): string {
  const visits = Array.from({ length: HEIGHT }, () => new Array<number>(WIDTH).fill(0));
  let x = (WIDTH - 1) / 2;
  let y = (HEIGHT - 1) / 2;
  for (const byte of createHash("sha256").update(keyBlob).digest()) {
    for (let pair = byte, step = 0; step < 4; step += 1, pair >>= 2) {
      x = within(x + (pair & 1 ? 1 : -1), WIDTH);
      y = within(y + (pair & 2 ? 1 : -1), HEIGHT);
      visits[y]![x] = Math.min(visits[y]![x]! + 1, START - 1);
    }
  }
  visits[(HEIGHT - 1) / 2]![(WIDTH - 1) / 2] = START;
  visits[y]![x] = END;
  const rows = visits.map((row) => `|${row.map((count) => SYMBOLS[count]).join("")}|`);
  return [border(title(type, keyBlob)), ...rows, border("[SHA256]")].join("\n");
}

function within(position: number, length: number): number {
  return Math.min(Math.max(position, 0), length - 1);
}

function border(text: string): string {
  const before = Math.floor((WIDTH - text.length) / 2);
  return `+${"-".repeat(before)}${text}${"-".repeat(WIDTH - text.length - before)}+`;
}

/** OpenSSH has one byte less than the width for it, and leaves the size out where it does not fit. */
function title(type: string, keyBlob: Buffer): string {
  const { name, bits = modulusBits(keyBlob) } = NAMES[type] ?? { name: "unknown" };
  const whole = `[${name} ${bits}]`;
  return whole.length < WIDTH ? whole : `[${name}]`;
}

/** Size of an RSA key, whose fields are the type, the exponent and the modulus. */
function modulusBits(keyBlob: Buffer): number {
  let at = 0;
  for (let field = 0; field < 2; field += 1) at += 4 + keyBlob.readUInt32BE(at);
  const modulus = keyBlob
    .subarray(at + 4)
    .toString("hex")
    .replace(/^0+/, "");
  return modulus === "" ? 0 : modulus.length * 4 - (Math.clz32(Number.parseInt(modulus[0]!, 16)) - 28);
}

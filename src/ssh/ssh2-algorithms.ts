import type { Algorithms, ServerHostKeyAlgorithm } from "ssh2";
import { matchesPattern } from "./patterns.ts";

/** Host key algorithms that we accept, best first; as in OpenSSH since 8.8 without SHA-1 (`ssh-rsa`). */
const HOST_KEY_ALGORITHMS: readonly ServerHostKeyAlgorithm[] = [
  "ssh-ed25519",
  "ecdsa-sha2-nistp256",
  "ecdsa-sha2-nistp384",
  "ecdsa-sha2-nistp521",
  "rsa-sha2-512",
  "rsa-sha2-256",
];

/** What ssh2 can do beyond these; only for whoever names it, as an old server may need. */
const ON_REQUEST: readonly ServerHostKeyAlgorithm[] = ["ssh-rsa"];

/**
 * Puts the algorithms of the known keys first, so that a server with several keys presents one that we can check
 * (OpenSSH: order_hostkeyalgs in sshconnect2.c, which does so only while HostKeyAlgorithms is not set: then a server with
 * several keys may present one that is not known, and the connection fails).
 *
 * Ciphers stay as ssh2 orders them, since that order is the fastest without its native addon. Measured over one
 * session channel of a stock OpenSSH 9.2 on loopback, 300 MB, best of three, down / up in MB/s: aes128-gcm 538 / 413,
 * aes256-gcm 482 / 351, aes128-ctr 336 / 287, aes256-ctr 320 / 320, chacha20-poly1305 (WebAssembly) 284 / 293.
 */
export function algorithmsFor(knownTypes: readonly string[], allowed: readonly ServerHostKeyAlgorithm[]): Algorithms {
  const isKnown = (algorithm: ServerHostKeyAlgorithm) =>
    knownTypes.includes(algorithm.startsWith("rsa-sha2-") ? "ssh-rsa" : algorithm);
  return {
    serverHostKey: [...allowed.filter(isKnown), ...allowed.filter((algorithm) => !isKnown(algorithm))],
  };
}

/**
 * The host key algorithms that ssh_config's HostKeyAlgorithms leaves of ours, best first. The `ssh` program prints whole
 * lists; in the files a list may begin with `+`, `-` or `^` (ssh_config(5)).
 *
 * @returns an empty list when ssh2 knows none of them
 */
export function hostKeyAlgorithms(configured: string | undefined): readonly ServerHostKeyAlgorithm[] {
  if (configured === undefined) return HOST_KEY_ALGORITHMS;
  const modifier = /^[+^-]/.exec(configured)?.[0];
  const patterns = configured.slice(modifier?.length ?? 0).split(",");
  const named = patterns.flatMap((pattern) =>
    [...HOST_KEY_ALGORITHMS, ...ON_REQUEST].filter((algorithm) => matchesPattern(algorithm, pattern)),
  );
  switch (modifier) {
    case "+":
      return [...new Set([...HOST_KEY_ALGORITHMS, ...named])];
    case "^":
      return [...new Set([...named, ...HOST_KEY_ALGORITHMS])];
    case "-":
      return HOST_KEY_ALGORITHMS.filter((algorithm) => !named.includes(algorithm));
    default:
      return [...new Set(named)];
  }
}

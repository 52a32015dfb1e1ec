/**
 * What the keychain program is asked, and what it answers: one JSON value each, over its standard input and output.
 * Secrets travel over these two pipes and nowhere else.
 */

/** The name under which our entries are filed in the keychain of the operating system. */
export const SERVICE = "paseo-ssh-runtime";

/** Longest secret that we store, characters. */
export const MAX_SECRET_CHARACTERS = 4096;
/** Longest request or answer, bytes; an answer with all accounts is the longest. */
export const MAX_MESSAGE_BYTES = 1024 * 1024;

/** Hashes of an RSA signature (RFC 8332); other keys have theirs by their type. SHA-1 is not among them. */
export type RsaHash = "sha256" | "sha512";

export type KeychainRequest =
  | { type: "secret"; account: string }
  /** Opens a key file with its stored passphrase and signs; neither passphrase nor key leave the program. */
  | { type: "sign"; keyFile: string; data: string; hash?: RsaHash | undefined }
  | { type: "store"; account: string; secret: string }
  | { type: "remove"; account: string }
  | { type: "list" };

export type KeychainReply =
  | { type: "secret"; secret: string }
  /** Base64. */
  | { type: "signature"; signature: string }
  | { type: "accounts"; accounts: string[] }
  | { type: "done" }
  /** No such entry. */
  | { type: "nothing" }
  /** The stored passphrase does not open the key file. */
  | { type: "wrong" }
  | { type: "unavailable"; reason: string };

/** The entry of a password: `password user@host:port`, with the port always, an IPv6 address in brackets. */
export function passwordAccount({ user, host, port }: { user: string; host: string; port: number }): string {
  return `password ${user}@${host.includes(":") ? `[${host}]` : host}:${port}`;
}

/** The entry of a passphrase: `passphrase` and the absolute path of the key file, symbolic links resolved. */
export function passphraseAccount(realPath: string): string {
  return `passphrase ${realPath}`;
}

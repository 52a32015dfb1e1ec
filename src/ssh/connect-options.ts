import type { Keychain } from "./keychain.ts";
import type { CallerEnvironment } from "./target.ts";

export interface ConnectOptions {
  /** The caller's SSH_AUTH_SOCK. The environment of this process is not looked at. */
  authSock?: string | undefined;
  /** The caller's HOME and PATH, for a ProxyCommand. Default: those of this process. */
  env?: Pick<CallerEnvironment, "HOME" | "PATH"> | undefined;
  /** The caller's keychain, for passwords and passphrases; without one, neither is used. */
  keychain?: Keychain | undefined;
  /** Ends the attempt; without effect once connected. */
  signal?: AbortSignal | undefined;
  /** Receives one line per notable event, without secrets. */
  log?: ((line: string) => void) | undefined;
  /** Told how far the attempt has come, for whoever explains it to a person. */
  trace?: ((event: ConnectEvent) => void) | undefined;
}

/** A step of an attempt that has succeeded. */
export interface ConnectEvent {
  step: "transport" | "host-key" | "login";
  /** Whom it concerns, a hop on the way perhaps: `user@host:port`. */
  name: string;
  /** What was found, for a person: an address, a fingerprint, the key that let us in. No secrets. */
  detail: string;
  /** Set when it is a hop. */
  hop?: true;
}

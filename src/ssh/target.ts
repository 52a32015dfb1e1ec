import type { ServerHostKeyAlgorithm } from "ssh2";
import type { LoginMethod } from "./authentication-methods.ts";
import type { RuntimeOptions } from "./options.ts";

export const DEFAULT_PORT = 22;

/** Which agent offers keys: the one of the caller (SSH_AUTH_SOCK), none, or the one at a socket that ssh_config names. */
export type IdentityAgent = { kind: "caller" } | { kind: "none" } | { kind: "socket"; path: string };

/** Where and as whom to connect, and how to know the host; everything resolved, all paths absolute. */
export interface SshTarget {
  /** What the person wrote; only for messages. */
  alias: string;
  /** The same for a shell, behind one of the operator's commands: HOST and what else decides where it leads. */
  commandArguments: string;
  host: string;
  port: number;
  user: string;
  addressFamily: "any" | "inet" | "inet6";
  bindAddress?: string;
  /** Identity files that somebody configured; with any, the default ones are not tried. */
  identityFiles: readonly string[];
  defaultIdentityFiles: readonly string[];
  certificateFiles: readonly string[];
  identitiesOnly: boolean;
  /** In the order in which they are tried. */
  preferredAuthentications: readonly LoginMethod[];
  identityAgent: IdentityAgent;
  /** Files that hold the person's known hosts; a new key goes into the first. */
  userKnownHostsFiles: readonly string[];
  globalKnownHostsFiles: readonly string[];
  /** Name under which the host key is filed instead of host and port. */
  hostKeyAlias?: string;
  hashKnownHosts: boolean;
  knownHostsCommand?: string;
  /** Those of ssh_config's list that ssh2 knows, best first. */
  hostKeyAlgorithms: readonly ServerHostKeyAlgorithm[];
  hostKeyPolicy: "strict" | "accept-new";
  /** As it was written; `jump` is what it comes to. */
  proxyJump?: string;
  /** The last jump host, over whose connection this host is reached. It may have one of its own. */
  jump?: SshTarget;
  /** With its tokens. */
  proxyCommand?: string;
  /** The ProxyCommand hands over a connected socket instead of passing bytes on. */
  proxyUseFdpass: boolean;
  /** A provider of keys on smart cards, which ssh loads. */
  pkcs11Provider?: string;
  /** Kerberos was put on the list of ways to log in; that it is allowed says nothing, since distributions allow it. */
  prefersGssapi: boolean;
  /** What the `ssh` program is told when it makes the connection; ssh_config tells it the rest. */
  program: ProgramSettings;
  carrier: "auto" | "ssh2" | "openssh";
  forwardAgent: boolean;
  connectTimeoutMs: number;
  keepaliveIntervalMs: number;
  /** Intervals without a sign of life after which the link counts as lost. */
  keepaliveCountMax: number;
}

/** Those of the runtime's options that decide where and how to connect. */
export type TargetOptions = Pick<
  RuntimeOptions,
  | "host"
  | "user"
  | "port"
  | "identityFile"
  | "identitiesOnly"
  | "proxyJump"
  | "knownHostsFile"
  | "sshConfigFile"
  | "hostKeyPolicy"
  | "carrier"
  | "forwardAgent"
  | "connectTimeoutMs"
  | "keepaliveIntervalMs"
>;

/** What the options say and ssh_config does not, for the `ssh` program. All paths absolute. */
export interface ProgramSettings {
  configFile?: string;
  user?: string;
  port?: number;
  identityFile?: string;
  identitiesOnly?: boolean;
  proxyJump?: string;
  knownHostsFile?: string;
  /** ssh_config has ForkAfterAuthentication. */
  forksItself: boolean;
  /** Where ssh and what it starts are found; SSH_AUTH_SOCK comes with each attempt. */
  env: Pick<CallerEnvironment, "HOME" | "PATH">;
}

/** Variables of the caller; others are not looked at. The broker's own may be those of another login. */
export interface CallerEnvironment {
  HOME?: string;
  PATH?: string;
  SSH_AUTH_SOCK?: string;
  DBUS_SESSION_BUS_ADDRESS?: string;
  XDG_RUNTIME_DIR?: string;
}

/** ssh_config's answer for one host: lower-case keywords, values in order, as `ssh -G` names and spells them. */
export type ConfigValues = ReadonlyMap<string, readonly string[]>;

export interface ConfigQuery {
  /** The host as the person wrote it, without user and port. */
  host: string;
  user?: string;
  port?: number;
  /** Read instead of `~/.ssh/config` and the system-wide file. Absolute. */
  configFile?: string;
  home: string;
  localUser: string;
  env: CallerEnvironment;
}

/** The jump hosts of a target, in the order in which they are visited. */
export function hopsOf({ jump }: SshTarget): SshTarget[] {
  return jump === undefined ? [] : [...hopsOf(jump), jump];
}

/** `user@host` or `user@host:port`, for messages. */
export function targetName(target: Pick<SshTarget, "user" | "host" | "port">): string {
  const host = target.port !== DEFAULT_PORT && target.host.includes(":") ? `[${target.host}]` : target.host;
  return `${target.user}@${host}${target.port === DEFAULT_PORT ? "" : `:${target.port}`}`;
}

/** Under which name and port the host's key is filed: OpenSSH files an alias without a port (ssh_config(5), HostKeyAlias). */
export function filedAs({ host, port, hostKeyAlias }: SshTarget): { host: string; port: number } {
  return hostKeyAlias === undefined ? { host, port } : { host: hostKeyAlias, port: DEFAULT_PORT };
}

/** The target's address family as Node counts it; 0 for any. */
export function familyOf({ addressFamily }: SshTarget): 0 | 4 | 6 {
  return addressFamily === "inet" ? 4 : addressFamily === "inet6" ? 6 : 0;
}

import { createHash } from "node:crypto";
import { hostname, type UserInfo, userInfo } from "node:os";
import { RuntimeError } from "../wire/errors.ts";
import { expandPath, type TokenValues } from "./expand.ts";
import type { RuntimeOptions } from "./options.ts";
import { configFromFiles } from "./ssh-config-files.ts";
import { configFromProgram } from "./ssh-config-program.ts";

/** Which agent offers keys: the one of the caller (SSH_AUTH_SOCK), none, or the one at a socket that ssh_config names. */
export type IdentityAgent = { kind: "caller" } | { kind: "none" } | { kind: "socket"; path: string };

/** Where and as whom to connect, and how to know the host; everything resolved, all paths absolute. */
export interface SshTarget {
  /** What the person wrote; only for messages. */
  alias: string;
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
  identityAgent: IdentityAgent;
  /** Files that hold the person's known hosts; a new key goes into the first. */
  userKnownHostsFiles: readonly string[];
  globalKnownHostsFiles: readonly string[];
  /** Name under which the host key is filed instead of host and port. */
  hostKeyAlias?: string;
  hashKnownHosts: boolean;
  knownHostsCommand?: string;
  hostKeyPolicy: "strict" | "accept-new";
  proxyJump?: string;
  proxyCommand?: string;
  carrier: "auto" | "ssh2" | "openssh";
  forwardAgent: boolean;
  connectTimeoutMs: number;
  keepaliveIntervalMs: number;
}

/** Variables of the caller; others are not looked at. The broker's own may be those of another login. */
export interface CallerEnvironment {
  HOME?: string;
  PATH?: string;
  SSH_AUTH_SOCK?: string;
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

/** Key types that a server of today accepts and ssh2 can use, in OpenSSH's order. */
const DEFAULT_IDENTITY_NAMES = ["id_rsa", "id_ecdsa", "id_ed25519"];
const DEFAULT_PORT = 22;

/**
 * Options first, then ssh_config as `ssh -G` reads it, or our own reading of the files where there is no `ssh`.
 *
 * As in OpenSSH, `~` and `%d` are the home folder of the account database, whatever HOME says; HOME counts only where
 * the account has no entry.
 *
 * @throws RuntimeError option-invalid when ssh_config has an error or says something that we cannot follow
 */
export async function resolveTarget(options: RuntimeOptions, env: CallerEnvironment): Promise<SshTarget> {
  const account = userInfoOrUndefined();
  const home = account?.homedir || env.HOME;
  if (home === undefined) {
    throw new RuntimeError(
      "option-invalid",
      "The local account has no home folder",
      "Set HOME, or add the account to the user database",
    );
  }
  const localUser = account?.username ?? "";
  const query: ConfigQuery = { host: options.host, home, localUser, env };
  if (options.user !== undefined) query.user = options.user;
  if (options.port !== undefined) query.port = options.port;
  if (options.sshConfigFile !== undefined) query.configFile = expandHome(options.sshConfigFile, home);
  // ssh does nothing at all for an account without an entry in the user database.
  const fromProgram = account === undefined ? undefined : await configFromProgram(query);
  const config = fromProgram ?? configFromFiles(query);
  return combine(options, query, config);
}

/** The pure half of `resolveTarget`. */
export function combine(options: RuntimeOptions, query: ConfigQuery, config: ConfigValues): SshTarget {
  const { home, localUser, env } = query;
  const one = (keyword: string): string | undefined => config.get(keyword)?.[0] || undefined;
  const oneExceptNone = (keyword: string): string | undefined => exceptNone(one(keyword));
  const host = (one("hostname") ?? options.host).toLowerCase();
  const port = options.port ?? portOf(one("port"));
  const user = options.user ?? one("user") ?? localUser;
  const hostKeyAlias = one("hostkeyalias");
  const proxyJump = options.proxyJump === undefined ? oneExceptNone("proxyjump") : exceptNone(options.proxyJump);
  const proxyCommand = options.proxyJump === undefined ? oneExceptNone("proxycommand") : undefined;

  const localHost = hostname();
  const tokens: TokenValues = {
    "%": "%",
    d: home,
    h: host,
    i: String(userInfoOrUndefined()?.uid ?? ""),
    j: proxyJump ?? "",
    k: hostKeyAlias ?? options.host,
    L: localHost.split(".")[0]!,
    l: localHost,
    n: options.host,
    p: String(port),
    r: user,
    u: localUser,
  };
  const paths = (keyword: string): string[] =>
    (config.get(keyword) ?? [])
      .filter((value) => value.toLowerCase() !== "none")
      .map((value) => expandPath(value, { keyword, home, tokens, env: { ...env } }));

  const configured = config.has("identityfile");
  const optionIdentity = options.identityFile === undefined ? [] : [expandHome(options.identityFile, home)];
  const identityFiles = [...new Set([...optionIdentity, ...paths("identityfile")])];
  const bindAddress = one("bindaddress");
  const knownHostsCommand = oneExceptNone("knownhostscommand");

  return {
    alias: options.host,
    host,
    port,
    user,
    addressFamily: addressFamilyOf(one("addressfamily")),
    ...(bindAddress === undefined ? {} : { bindAddress }),
    identityFiles,
    defaultIdentityFiles:
      configured || options.identityFile !== undefined
        ? []
        : DEFAULT_IDENTITY_NAMES.map((name) => `${home}/.ssh/${name}`),
    certificateFiles: paths("certificatefile"),
    identitiesOnly: options.identitiesOnly ?? isYes(one("identitiesonly")),
    identityAgent: identityAgentOf(config.get("identityagent")?.[0], (value) =>
      expandPath(value, { keyword: "identityagent", home, tokens, env: { ...env } }),
    ),
    userKnownHostsFiles:
      options.knownHostsFile === undefined ? paths("userknownhostsfile") : [expandHome(options.knownHostsFile, home)],
    globalKnownHostsFiles: paths("globalknownhostsfile"),
    ...(hostKeyAlias === undefined ? {} : { hostKeyAlias }),
    hashKnownHosts: isYes(one("hashknownhosts")),
    ...(knownHostsCommand === undefined ? {} : { knownHostsCommand }),
    hostKeyPolicy: options.hostKeyPolicy,
    ...(proxyJump === undefined ? {} : { proxyJump }),
    ...(proxyCommand === undefined ? {} : { proxyCommand }),
    carrier: options.carrier,
    forwardAgent: options.forwardAgent,
    connectTimeoutMs: options.connectTimeoutMs,
    keepaliveIntervalMs: options.keepaliveIntervalMs,
  };
}

/**
 * Two targets with the same key may share a connection: it covers where and as whom we connect and how the host is
 * known, not the limits and not the name that the person used.
 */
export function targetKey(target: SshTarget): string {
  const { alias: _alias, connectTimeoutMs: _connect, keepaliveIntervalMs: _keepalive, ...identity } = target;
  const sorted = Object.entries(identity).sort(([left], [right]) => (left < right ? -1 : 1));
  return createHash("sha256").update(JSON.stringify(sorted)).digest("hex").slice(0, 32);
}

/** `user@host` or `user@host:port`, for messages. */
export function targetName(target: Pick<SshTarget, "user" | "host" | "port">): string {
  const host = target.port !== DEFAULT_PORT && target.host.includes(":") ? `[${target.host}]` : target.host;
  return `${target.user}@${host}${target.port === DEFAULT_PORT ? "" : `:${target.port}`}`;
}

function identityAgentOf(value: string | undefined, expand: (value: string) => string): IdentityAgent {
  if (value === undefined || value === "" || value === "SSH_AUTH_SOCK") return { kind: "caller" };
  if (value.toLowerCase() === "none") return { kind: "none" };
  // ssh_config(5): a value that begins with "$" names a variable that holds the location.
  const path = expand(value.replace(/^\$(?!\{)([A-Za-z_][A-Za-z0-9_]*)$/, (_, name: string) => `\${${name}}`));
  return { kind: "socket", path };
}

function addressFamilyOf(value: string | undefined): SshTarget["addressFamily"] {
  const family = value?.toLowerCase();
  return family === "inet" || family === "inet6" ? family : "any";
}

function isYes(value: string | undefined): boolean {
  return /^(yes|true)$/i.test(value ?? "");
}

function portOf(value: string | undefined): number {
  if (value === undefined) return DEFAULT_PORT;
  const port = Number(value);
  if (Number.isInteger(port) && port >= 1 && port <= 65_535) return port;
  throw new RuntimeError(
    "option-invalid",
    `ssh_config has Port ${value.slice(0, 20)}`,
    "Use a whole number from 1 to 65535",
  );
}

function exceptNone(value: string | undefined): string | undefined {
  return value?.toLowerCase() === "none" ? undefined : value;
}

function expandHome(path: string, home: string): string {
  return path.replace(/^~(?=\/|$)/, home);
}

function userInfoOrUndefined(): UserInfo<string> | undefined {
  try {
    return userInfo();
  } catch {
    // An account without an entry in the user database, as in some containers.
    return undefined;
  }
}

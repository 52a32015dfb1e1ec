import { createHash } from "node:crypto";
import { hostname, type UserInfo, userInfo } from "node:os";
import type { ServerHostKeyAlgorithm } from "ssh2";
import { RuntimeError } from "../wire/errors.ts";
import { type LoginMethod, loginMethodsOf } from "./authentication-methods.ts";
import { commandArguments } from "./command-arguments.ts";
import { expandPath, type TokenValues } from "./expand.ts";
import { isSafeHost, isSafeUser } from "./host.ts";
import { jumpHostOptions } from "./jump-host.ts";
import { opensshReasons } from "./openssh-reasons.ts";
import type { RuntimeOptions } from "./options.ts";
import { expandProxy } from "./proxy-tokens.ts";
import { configFromFiles } from "./ssh-config-files.ts";
import { configFromProgram } from "./ssh-config-program.ts";
import { badNumber, countOf, hostKeyPolicyOf, millisecondsOf } from "./ssh-config-values.ts";
import { hostKeyAlgorithms } from "./ssh2-algorithms.ts";

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

/** Key types that a server of today accepts and ssh2 can use, in OpenSSH's order. */
const DEFAULT_IDENTITY_NAMES = ["id_rsa", "id_ecdsa", "id_ed25519"];
const DEFAULT_PORT = 22;
const DEFAULT_CONNECT_TIMEOUT_MS = 15_000;
const DEFAULT_KEEPALIVE_INTERVAL_MS = 5_000;

/**
 * Options first, then ssh_config as `ssh -G` reads it, or our own reading of the files where there is no `ssh`.
 *
 * As in OpenSSH, `~` and `%d` are the home folder of the account database, whatever HOME says; HOME counts only where
 * the account has no entry.
 *
 * Jump hosts are resolved along with it, each from ssh_config under its own name.
 *
 * @throws RuntimeError option-invalid when ssh_config has an error or says something that we cannot follow
 */
export async function resolveTarget(options: TargetOptions, env: CallerEnvironment): Promise<SshTarget> {
  return await resolveOver(options, env, []);
}

/** @param visited options of the targets on whose way this one lies */
async function resolveOver(
  options: TargetOptions,
  env: CallerEnvironment,
  visited: readonly TargetOptions[],
): Promise<SshTarget> {
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
  const target = combine(options, query, config);
  if (target.proxyJump === undefined) return target;
  const jump = jumpHostOptions(target, options, visited);
  return { ...target, jump: await resolveOver(jump, env, [...visited, options]) };
}

/** The jump hosts of a target, in the order in which they are visited. */
export function hopsOf({ jump }: SshTarget): SshTarget[] {
  return jump === undefined ? [] : [...hopsOf(jump), jump];
}

/** The pure half of `resolveTarget`. */
export function combine(options: TargetOptions, query: ConfigQuery, config: ConfigValues): SshTarget {
  const { home, localUser, env } = query;
  const one = (keyword: string): string | undefined => config.get(keyword)?.[0] || undefined;
  const oneExceptNone = (keyword: string): string | undefined => exceptNone(one(keyword));
  const host = (one("hostname") ?? options.host).toLowerCase();
  const port = options.port ?? portOf(one("port"));
  const user = options.user ?? one("user") ?? localUser;
  // The names go into commands and messages; those that somebody typed have been looked at already.
  if (!isSafeHost(host)) throw unsafeName(options.host, "a HostName");
  if (!isSafeUser(user)) throw unsafeName(options.host, "a User");
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
      .flatMap((value) => {
        try {
          return [expandPath(value, { keyword, home, tokens, env: { ...env } })];
        } catch (error) {
          // The ssh program expands its paths itself, and knows more tokens.
          if (options.carrier === "openssh") return [];
          throw error;
        }
      });

  const configured = config.has("identityfile");
  const optionIdentity = options.identityFile === undefined ? [] : [expandHome(options.identityFile, home)];
  const identityFiles = [...new Set([...optionIdentity, ...paths("identityfile")])];
  const bindAddress = one("bindaddress");
  const knownHostsCommand = oneExceptNone("knownhostscommand");
  const pkcs11Provider = oneExceptNone("pkcs11provider");

  return {
    alias: options.host,
    commandArguments: commandArguments(options),
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
    preferredAuthentications: loginMethodsOf(config),
    identityAgent: identityAgentOf(config.get("identityagent")?.[0], (value) =>
      expandPath(value, { keyword: "identityagent", home, tokens, env: { ...env } }),
    ),
    userKnownHostsFiles:
      options.knownHostsFile === undefined ? paths("userknownhostsfile") : [expandHome(options.knownHostsFile, home)],
    globalKnownHostsFiles: paths("globalknownhostsfile"),
    ...(hostKeyAlias === undefined ? {} : { hostKeyAlias }),
    hashKnownHosts: isYes(one("hashknownhosts")),
    ...(knownHostsCommand === undefined ? {} : { knownHostsCommand }),
    hostKeyAlgorithms: hostKeyAlgorithms(one("hostkeyalgorithms")),
    hostKeyPolicy: options.hostKeyPolicy ?? hostKeyPolicyOf(one("stricthostkeychecking")),
    ...(proxyJump === undefined ? {} : { proxyJump }),
    ...(proxyCommand === undefined ? {} : { proxyCommand }),
    proxyUseFdpass: proxyCommand !== undefined && isYes(one("proxyusefdpass")),
    ...(pkcs11Provider === undefined ? {} : { pkcs11Provider }),
    prefersGssapi: isYes(one("gssapiauthentication")) && /\bgssapi-/.test(one("preferredauthentications") ?? ""),
    program: programSettings(options, query, isYes(one("forkafterauthentication"))),
    carrier: options.carrier,
    forwardAgent: options.forwardAgent,
    connectTimeoutMs:
      options.connectTimeoutMs ?? millisecondsOf("ConnectTimeout", one("connecttimeout")) ?? DEFAULT_CONNECT_TIMEOUT_MS,
    keepaliveIntervalMs:
      options.keepaliveIntervalMs ??
      millisecondsOf("ServerAliveInterval", one("serveraliveinterval")) ??
      DEFAULT_KEEPALIVE_INTERVAL_MS,
    keepaliveCountMax: countOf(one("serveralivecountmax")),
  };
}

function programSettings(options: TargetOptions, query: ConfigQuery, forksItself: boolean): ProgramSettings {
  const { configFile, home, env } = query;
  const { user, port, identityFile, identitiesOnly, proxyJump, knownHostsFile } = options;
  return {
    ...(configFile === undefined ? {} : { configFile }),
    ...(user === undefined ? {} : { user }),
    ...(port === undefined ? {} : { port }),
    ...(identityFile === undefined ? {} : { identityFile: expandHome(identityFile, home) }),
    ...(identitiesOnly === undefined ? {} : { identitiesOnly }),
    ...(proxyJump === undefined ? {} : { proxyJump }),
    ...(knownHostsFile === undefined ? {} : { knownHostsFile: expandHome(knownHostsFile, home) }),
    forksItself,
    env: {
      ...(env.HOME === undefined ? {} : { HOME: env.HOME }),
      ...(env.PATH === undefined ? {} : { PATH: env.PATH }),
    },
  };
}

/**
 * Two targets with the same key may share a connection: it covers where, as whom and over which way we connect and how
 * the hosts are known, not the limits and not the name that the person used. The `ssh` program looks that name up
 * itself, and finds there what does not stand in a target, so two names are two connections for it.
 */
export function targetKey(target: SshTarget): string {
  return createHash("sha256")
    .update(JSON.stringify(identityOf(target)))
    .digest("hex")
    .slice(0, 32);
}

function identityOf(target: SshTarget): unknown {
  const {
    alias,
    program,
    commandArguments: _arguments,
    connectTimeoutMs: _connect,
    keepaliveIntervalMs: _interval,
    keepaliveCountMax: _count,
    ...identity
  } = target;
  const { env: _env, ...settings } = program;
  return Object.entries({
    ...identity,
    ...(opensshReasons(target) === undefined ? {} : { alias, settings }),
    jump: target.jump && identityOf(target.jump),
    // The name that the person used counts where the command has it.
    proxyCommand: target.proxyCommand && expandProxy(target.proxyCommand, target),
  }).sort(([left], [right]) => (left < right ? -1 : 1));
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
  throw badNumber("Port", value, "Use a whole number from 1 to 65535");
}

function unsafeName(alias: string, what: string): RuntimeError {
  return new RuntimeError(
    "option-invalid",
    `ssh_config gives "${alias}" ${what} that begins with a dash, or has blanks, control characters or shell syntax in it`,
    "Correct ssh_config",
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

import { hostname, type UserInfo, userInfo } from "node:os";
import { RuntimeError } from "../wire/errors.ts";
import { loginMethodsOf } from "./authentication-methods.ts";
import { commandArguments } from "./command-arguments.ts";
import { expandPath, type TokenValues } from "./expand.ts";
import { isSafeHost, isSafeUser } from "./host.ts";
import { jumpHostOptions } from "./jump-host.ts";
import { configFromFiles } from "./ssh-config-files.ts";
import { configFromProgram } from "./ssh-config-program.ts";
import { badNumber, countOf, hostKeyPolicyOf, millisecondsOf } from "./ssh-config-values.ts";
import { hostKeyAlgorithms } from "./ssh2-algorithms.ts";
import {
  type CallerEnvironment,
  type ConfigQuery,
  type ConfigValues,
  DEFAULT_PORT,
  type IdentityAgent,
  type ProgramSettings,
  type SshTarget,
  type TargetOptions,
} from "./target.ts";

/** Key types that a server of today accepts and ssh2 can use, in OpenSSH's order. */
const DEFAULT_IDENTITY_NAMES = ["id_rsa", "id_ecdsa", "id_ed25519"];
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

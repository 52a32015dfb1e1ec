import { networkEnvironment } from "../../src/wire/git-network.ts";
import { type GitEnd, type GitOptions, gitReason } from "../../src/wire/git-process.ts";
import type { GitCredentials } from "./git-url.ts";

/** How git reaches one source: options and environment for its network commands. */
export interface GitAccess {
  /** Options that stand before git's subcommand. */
  config: readonly string[];
  env: Readonly<Record<string, string>>;
  secretInput: string | undefined;
  /** Why a command failed, without what must not be shown. */
  reason(result: GitEnd): string;
}

/** Prints what git's credential protocol asks for from descriptor 3, which git passes on to it. It holds no secret itself. */
const HELPER = '!f() { test "$1" = get && cat <&3; }; f';

/**
 * The ways to try, in order. The URL's own credentials stand alone: helpers of the account would otherwise be asked
 * first, and would be told to store them. A lone user name may be the account's name, for which the account's helpers
 * have the password, or a token with an empty password.
 */
export async function waysOfAccess(credentials: GitCredentials | undefined, options: GitOptions): Promise<GitAccess[]> {
  const env = await networkEnvironment(options);
  const plain: GitAccess = { config: [], env, secretInput: undefined, reason: gitReason };
  if (!credentials) return [plain];
  const own: GitAccess = {
    // Only for this origin: git asks anew after a redirect to another one. The empty helper drops all before it.
    config: [
      "-c",
      `credential.${credentials.origin}.helper=`,
      "-c",
      `credential.${credentials.origin}.helper=${HELPER}`,
    ],
    env,
    secretInput: `username=${credentials.username}\npassword=${credentials.password ?? ""}\n`,
    reason: (result) => redact(gitReason(result), credentials),
  };
  return credentials.password === undefined ? [plain, own] : [own];
}

function redact(text: string, { username, password }: GitCredentials): string {
  // An account's name is no secret once there is a password beside it, and may be a word like "git".
  const secrets = password === undefined ? [username] : [password, username.length >= 16 ? username : ""];
  return secrets
    .filter((secret) => secret !== "")
    .flatMap((secret) => [secret, encodeURIComponent(secret)])
    .reduce((shown, secret) => shown.replaceAll(secret, "***"), text);
}

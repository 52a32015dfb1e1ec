import { oneLine, RuntimeError } from "../../src/wire/errors.ts";

export interface GitUrl {
  /** As the user wrote it, without credentials; safe for argv, configuration and messages. */
  url: string;
  credentials: GitCredentials | undefined;
}

/** What the userinfo of an http(s) URL says. Kept in memory only. */
export interface GitCredentials {
  /** Where they are valid: scheme, host and port. */
  origin: string;
  username: string;
  /** Absent when the URL has a name alone, which may be an account's name or a token. */
  password: string | undefined;
}

const SUPPORTED_SCHEMES = ["https", "http", "ssh", "git", "file"];

/** `user@host:path` */
const SCP_LIKE = /^(?:[^/:@\s-][^/:@\s]*@)?(?:\[[0-9A-Fa-f:.]+\]|[^/:@\s[\]-][^/:@\s[\]]*):(?!:)[^\x00-\x1f]+$/;

/** `user:password@host:path`, which ssh would take for the host `user` and show the password in its argv. */
const SCP_WITH_PASSWORD = /^[^/@]*:[^/@]*@[^/@]*:/;

/**
 * Takes a git URL apart.
 * @throws RuntimeError source-unsupported for a transport that runs commands of the URL's choice (`ext::`), a relative
 *   path, an option in disguise, or control characters
 */
export function parseGitUrl(text: string): GitUrl {
  if (text === "" || text.startsWith("-") || /[\x00-\x1f\x7f]/.test(text)) throw unsupported(text);
  const url = /^([A-Za-z][0-9A-Za-z+.-]*):\/\/([^/?#]*)(.*)$/s.exec(text);
  if (url) return parseSchemeUrl(text, url[1]!.toLowerCase(), url[2]!, url[3]!);
  if (text.startsWith("/")) return { url: text, credentials: undefined };
  if (/^[0-9A-Za-z_]+::/.test(text) || !SCP_LIKE.test(text) || SCP_WITH_PASSWORD.test(text)) throw unsupported(text);
  return { url: text, credentials: undefined };
}

function parseSchemeUrl(text: string, scheme: string, authority: string, rest: string): GitUrl {
  if (!SUPPORTED_SCHEMES.includes(scheme)) throw unsupported(text);
  const at = authority.lastIndexOf("@");
  const userinfo = authority.slice(0, Math.max(at, 0));
  const host = authority.slice(at + 1);
  if (host.startsWith("-") || (host === "" && scheme !== "file") || /[\s="'\\]/.test(host)) throw unsupported(text);
  if (scheme === "ssh") {
    // The user is part of an ssh address; a password in it is of no use to ssh.
    const user = userinfo.split(":")[0]!;
    if (user.startsWith("-")) throw unsupported(text);
    return { url: `ssh://${user === "" ? "" : `${user}@`}${host}${rest}`, credentials: undefined };
  }
  const origin = `${scheme}://${host}`;
  const url = `${origin}${rest}`;
  if (userinfo === "" || (scheme !== "https" && scheme !== "http")) return { url, credentials: undefined };
  const colon = userinfo.indexOf(":");
  const username = decode(colon < 0 ? userinfo : userinfo.slice(0, colon), url);
  const password = colon < 0 ? undefined : decode(userinfo.slice(colon + 1), url);
  return { url, credentials: { origin, username, password } };
}

function decode(text: string, url: string): string {
  let decoded = text;
  try {
    decoded = decodeURIComponent(text);
  } catch {
    // Not percent-encoded after all; taken as it is, as git does.
  }
  // A newline would forge a line of git's credential protocol.
  if (/[\x00-\x1f\x7f]/.test(decoded)) throw unsupported(url);
  return decoded;
}

/** A git URL for storing and showing; what is no git URL comes out without anything that could be a credential. */
export function withoutCredentials(text: string): string {
  try {
    return parseGitUrl(text).url;
  } catch {
    return withoutUserinfo(text);
  }
}

function unsupported(text: string): RuntimeError {
  return new RuntimeError(
    "source-unsupported",
    `${JSON.stringify(withoutUserinfo(text))} is not a git URL that can be used`,
    "Use an https, http, ssh, git or file URL, user@host:path, or an absolute path on the host",
  );
}

function withoutUserinfo(text: string): string {
  return oneLine(text.replace(/:\/\/[^/]*@/g, "://").replace(/^[^/@]*:[^/@]*@/, ""));
}

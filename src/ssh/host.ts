import { RuntimeError } from "../wire/errors.ts";

/** What a person may write as `host`. */
export interface HostSpec {
  /** Alias from ssh_config, host name or address; without brackets. */
  host: string;
  user?: string;
  port?: number;
}

const MAX_HOST_CHARACTERS = 255;
const MAX_USER_CHARACTERS = 128;

/**
 * Host names and users that could be taken for an option or for shell syntax further on (`ssh`, a ProxyCommand's `%h`)
 * are refused. The lists are those of OpenSSH's own client since 9.6 (valid_hostname and valid_ruser in ssh.c, a fix
 * for CVE-2023-51385), with blanks and control characters refused in both.
 */
const UNSAFE_IN_HOST = /[\s\x00-\x1f\x7f'`"$\\;&<>|(){},/@[\]]/;
const UNSAFE_IN_USER = /[\s\x00-\x1f\x7f'`";&<>|(){}$]/;

/**
 * Splits `host`, `user@host`, `host:port`, `user@host:port`; an IPv6 address with a port stands in brackets
 * (`user@[::1]:2222`), without one it may stand alone (`::1`). A user may contain `@`; the last one separates.
 *
 * @throws RuntimeError option-invalid
 */
export function splitHost(text: string): HostSpec {
  const at = text.lastIndexOf("@");
  const user = at < 0 ? undefined : text.slice(0, at);
  const address = text.slice(at + 1);

  const bracketed = /^\[([^[\]]*)\](?::(.*))?$/.exec(address);
  const withPort = /^([^:]*):([^:]*)$/.exec(address);
  const [host, portText] = bracketed
    ? [bracketed[1]!, bracketed[2]]
    : withPort
      ? [withPort[1]!, withPort[2]]
      : [address, undefined];

  const spec: HostSpec = { host: checkHost(host) };
  if (user !== undefined) spec.user = checkUser(user);
  if (portText !== undefined) spec.port = checkPort(portText);
  return spec;
}

/** @throws RuntimeError option-invalid */
export function checkUser(user: string): string {
  if (!isSafeUser(user)) {
    throw invalid("user", "must be the name of an account, without blanks or quotes and without a dash in front");
  }
  return user;
}

export function isSafeUser(user: string): boolean {
  return (
    user !== "" &&
    user.length <= MAX_USER_CHARACTERS &&
    !user.startsWith("-") &&
    !user.endsWith("\\") &&
    !UNSAFE_IN_USER.test(user)
  );
}

export function isSafeHost(host: string): boolean {
  return host !== "" && host.length <= MAX_HOST_CHARACTERS && !host.startsWith("-") && !UNSAFE_IN_HOST.test(host);
}

function checkHost(host: string): string {
  if (!isSafeHost(host)) {
    throw invalid(
      "host",
      'must be an alias from ssh_config, a host name or "user@host:port", without blanks and without a dash in front',
    );
  }
  return host;
}

function checkPort(text: string): number {
  const port = /^[0-9]{1,5}$/.test(text) ? Number(text) : 0;
  if (port < 1 || port > 65535) throw invalid("host", "has a port that is not a whole number from 1 to 65535");
  return port;
}

function invalid(option: string, problem: string): RuntimeError {
  return new RuntimeError(
    "option-invalid",
    `Option "${option}" ${problem}`,
    `Correct "${option}" in the runtime's options`,
  );
}

import { oneLine, RuntimeError } from "../wire/errors.ts";
import { type SshTarget, targetName } from "./target.ts";

/**
 * What a person reads when no connection came about, decided by the system's error code (errno(3), getaddrinfo(3)).
 * @param said what the server has sent first; empty when it has accepted the connection and sent nothing
 */
export function connectError(error: unknown, target: SshTarget, said?: string): RuntimeError {
  const code = systemCode(error);
  const name = targetName(target);
  switch (code) {
    case "ENOTFOUND":
    case "ENODATA":
    case "EAI_ADDRFAMILY":
    case "EAI_AGAIN":
    case "EAI_NODATA":
    case "EAI_NONAME":
    case "EAI_FAIL":
      return new RuntimeError(
        "host-unknown",
        `The host name "${target.host}" cannot be resolved (${code})`,
        `Check the host, or what ssh_config says about "${target.alias}"`,
        { cause: error },
      );
    case "ECONNREFUSED":
      return new RuntimeError(
        "connection-refused",
        `${target.host} refuses connections on port ${target.port}`,
        "Check the port, and that an SSH server runs there",
        { cause: error },
      );
    case "ETIMEDOUT":
      return timeoutError(target, undefined, { cause: error });
    case "EHOSTUNREACH":
    case "EHOSTDOWN":
    case "ENETUNREACH":
    case "ENETDOWN":
    case "EADDRNOTAVAIL":
      return new RuntimeError(
        "connection-failed",
        `There is no route to ${target.host} (${code})`,
        "Check the network or VPN",
        { cause: error },
      );
    default:
      if (said !== undefined && !/^SSH-/m.test(said)) return droppedError(said, target, error);
      return new RuntimeError(
        "connection-failed",
        `The connection to ${name} ended before it was established (${code ?? textOf(error)})`,
        "Check that an SSH server answers there, and its log",
        { cause: error },
      );
  }
}

/**
 * The server has hung up before its version (RFC 4253, 4.2). OpenSSH then says "Exceeded MaxStartups", and since 9.8,
 * which also keeps out addresses whose logins have failed (PerSourcePenalties), "Not allowed at this time" in all cases
 * (sshd.c, drop_connection). Older ones say nothing, and neither do firewalls and tcp wrappers.
 */
function droppedError(said: string, target: SshTarget, cause: unknown): RuntimeError {
  const name = targetName(target);
  const line = oneLine(said.split(/[\r\n]/)[0]!);
  if (/MaxStartups|not allowed at this time/i.test(line)) {
    return new RuntimeError(
      "connection-failed",
      `${name} turns connections away at this time (it said: ${line})`,
      "Too many logins are under way there, or logins from here have failed too often: wait some minutes, or see MaxStartups and PerSourcePenalties in its sshd_config",
      { cause },
    );
  }
  return new RuntimeError(
    "connection-failed",
    said === ""
      ? `${name} accepted the connection and dropped it without a word`
      : `${name} does not speak SSH (it said: ${line})`,
    "Check that an SSH server listens on that port, and whether a firewall, MaxStartups or PerSourcePenalties keeps this address out; the server's log says more",
    { cause },
  );
}

/** @param detail what else is known */
export function timeoutError(target: SshTarget, detail?: string, options?: { cause: unknown }): RuntimeError {
  return new RuntimeError(
    "connection-timeout",
    `${targetName(target)} did not answer within ${target.connectTimeoutMs} ms${detail === undefined ? "" : ` (${detail})`}`,
    "Check the network, or raise the option connectTimeoutMs",
    options,
  );
}

export function lostError(target: SshTarget, reason: string): RuntimeError {
  return new RuntimeError(
    "connection-lost",
    `The connection to ${targetName(target)} was lost (${reason})`,
    "Check the network and try again",
  );
}

/** Node tries several addresses and then reports an aggregate, which carries the code of one of its errors. */
function systemCode(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | undefined)?.code;
  return typeof code === "string" ? code : undefined;
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message.slice(0, 200) : String(error).slice(0, 200);
}

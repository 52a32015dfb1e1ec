import { RuntimeError } from "../wire/errors.ts";
import { type SshTarget, targetName } from "./target.ts";

/** What a person reads when a connection stands and a channel on it does not come about. */

/** Reasons of a server that opens no channel: RFC 4254, 5.1. */
const OpenFailure = { AdministrativelyProhibited: 1, ConnectFailed: 2, UnknownChannelType: 3 } as const;

/** Longer paths do not fit into a socket address anywhere. Bytes. */
const MAX_SOCKET_PATH_BYTES = 107;

/** @returns undefined when the path is one that a unix socket can have */
export function impossibleSocketPath(socketPath: string): RuntimeError | undefined {
  const fits = Buffer.byteLength(socketPath) <= MAX_SOCKET_PATH_BYTES;
  if (socketPath !== "" && !socketPath.includes("\0") && fits) return undefined;
  return new RuntimeError(
    "stream-refused",
    `"${socketPath}" cannot be the path of a unix socket`,
    "Choose a shorter root",
  );
}

/** @param reason the server's reason number, undefined when it gave none */
export function streamRefused(target: SshTarget, socketPath: string, reason: number | undefined): RuntimeError {
  const name = targetName(target);
  if (reason === OpenFailure.AdministrativelyProhibited || reason === OpenFailure.UnknownChannelType) {
    return new RuntimeError(
      "forwarding-refused",
      `${name} does not allow streams to unix sockets`,
      "Nothing has to be done: a session carries them instead",
    );
  }
  return new RuntimeError(
    "stream-refused",
    `${name} did not open a stream to ${socketPath}: nothing listens there, or the server does not allow such streams`,
    "Check AllowStreamLocalForwarding, AllowTcpForwarding and DisableForwarding in sshd_config",
  );
}

/** @param reason the server's reason number; only the opening of a channel is refused with one, not the command */
export function sessionRefused(target: SshTarget, reason: number | undefined): RuntimeError {
  const name = targetName(target);
  return reason === undefined
    ? new RuntimeError("session-refused", `${name} does not start a command`, "See the server's log for the reason")
    : new RuntimeError(
        "session-refused",
        `${name} opens no further session`,
        "Raise MaxSessions in its sshd_config: it is 0, or as many sessions are open",
      );
}

export function channelTimeout(target: SshTarget): RuntimeError {
  return new RuntimeError(
    "connection-timeout",
    `${targetName(target)} did not open a channel within ${target.connectTimeoutMs} ms`,
    "Check the network and try again",
  );
}

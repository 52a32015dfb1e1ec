import { RuntimeError } from "../wire/errors.ts";
import { timeoutError } from "./network-errors.ts";
import type { SshLog } from "./openssh-log.ts";
import { type SshTarget, targetName } from "./target.ts";

const LAST_LINES = 3;

type Explanation = (said: string, target: SshTarget, log: SshLog) => RuntimeError;

/**
 * What ssh says (OpenSSH: sshconnect.c, sshconnect2.c, packet.c, misc.c) and what it means, the most telling first: a
 * changed key is followed by "Host key verification failed", and a failed jump by "Connection closed".
 */
const MEANINGS: readonly [RegExp, Explanation][] = [
  [/REVOKED HOST KEY DETECTED|^Error: Host key .* revoked|marked as revoked/i, revoked],
  [/REMOTE HOST IDENTIFICATION HAS CHANGED|^Host key for .* has changed/, changed],
  [/host key is known for .* and you have requested strict checking|^Host key verification failed/, unknownKey],
  [/Could not resolve hostname/, unknownHost],
  [/Connection refused/, refused],
  [/timed out/i, (said, target) => (said.startsWith("Timeout,") ? failed(said, target) : timedOut(target))],
  [/Permission denied \(|Too many authentication failures|No supported authentication methods/, unauthenticated],
  [/Bad configuration option|^command-line|: line \d+|terminating, \d+ bad configuration/, badConfiguration],
];

/** Why an `ssh` ended before it had logged in. */
export function connectFailure(target: SshTarget, log: SshLog): RuntimeError {
  for (const [pattern, explain] of MEANINGS) {
    const said = log.lines.find((line) => pattern.test(line));
    if (said !== undefined) return explain(said, target, log);
  }
  // A ProxyCommand gives its reason before ssh says that the connection was closed.
  return failed(log.lines.slice(-LAST_LINES).join("; ") || "nothing", target);
}

function revoked(_said: string, target: SshTarget, { lines, hostKey }: SshLog): RuntimeError {
  const place = placeIn(lines);
  return new RuntimeError(
    "host-key-revoked",
    `The host key of ${targetName(target)}${known(hostKey)} is marked as revoked${place === undefined ? "" : ` in ${place}`}`,
    "Do not connect; ask the administrator of the host which key is valid",
  );
}

function changed(_said: string, target: SshTarget, { lines, hostKey }: SshLog): RuntimeError {
  const place = placeIn(lines);
  return new RuntimeError(
    "host-key-changed",
    `The host key of ${targetName(target)} has changed: the server presents ${hostKey ?? "another one"}, ${place ?? "the file of known hosts"} has another. Somebody may be intercepting the connection`,
    `If the administrator confirms the new key, remove the old one: ssh ${target.alias} says how`,
  );
}

function unknownKey(said: string, target: SshTarget, { hostKey }: SshLog): RuntimeError {
  // Before there is a key of the target's own, it is a jump that has been refused.
  const whose =
    hostKey === undefined && target.proxyJump !== undefined
      ? `a host on the way to ${targetName(target)} (ProxyJump ${target.proxyJump})`
      : targetName(target);
  return new RuntimeError(
    "host-key-unknown",
    `The host key of ${whose} is not known${hostKey === undefined ? "" : `: ${hostKey}`} (ssh said: ${said})`,
    `Compare the fingerprint with the host's, then connect once with: ssh ${target.alias}; or set the option hostKeyPolicy to "accept-new"`,
  );
}

function unknownHost(said: string, target: SshTarget): RuntimeError {
  const name = /resolve hostname ([^\s:]+)/.exec(said)?.[1] ?? target.host;
  return new RuntimeError(
    "host-unknown",
    `The host name "${name}" cannot be resolved`,
    `Check the host, or what ssh_config says about "${target.alias}"`,
  );
}

function refused(said: string, target: SshTarget): RuntimeError {
  const [, host, port] = /connect to host (\S+) port (\d+)/.exec(said) ?? [];
  return new RuntimeError(
    "connection-refused",
    `${host ?? target.host} refuses connections on port ${port ?? target.port}`,
    "Check the port, and that an SSH server runs there",
  );
}

function timedOut(target: SshTarget): RuntimeError {
  return timeoutError(target);
}

function unauthenticated(said: string, target: SshTarget, { offered, methods }: SshLog): RuntimeError {
  return new RuntimeError(
    "authentication-failed",
    `${targetName(target)} accepted none of the keys that ssh offered: ${offered.join(", ") || "none"}${methods === undefined ? "" : `. It would accept ${methods}`} (ssh said: ${said})`,
    "Add a key that the host knows to the ssh agent, or name it with the option identityFile",
  );
}

function badConfiguration(said: string, target: SshTarget): RuntimeError {
  return new RuntimeError(
    "option-invalid",
    `ssh refuses its configuration for "${target.alias}": ${said}`,
    `Correct ssh_config until this works: ssh ${target.alias} true`,
  );
}

function failed(said: string, target: SshTarget): RuntimeError {
  return new RuntimeError(
    "connection-failed",
    `The connection to ${targetName(target)} ended before it was established (ssh said: ${said})`,
    `Check that this works: ssh ${target.alias} true`,
  );
}

/** The line of a file of known hosts that ssh has named, as `file:line`. */
function placeIn(lines: readonly string[]): string | undefined {
  for (const line of lines) {
    const [, place] = /(?:Offending|matching) .*?key (?:for \S+ found )?(?:in|at) (\/.*:\d+)/i.exec(line) ?? [];
    if (place !== undefined) return place;
  }
  return undefined;
}

function known(hostKey: string | undefined): string {
  return hostKey === undefined ? "" : ` (${hostKey})`;
}

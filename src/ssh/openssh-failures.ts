import { RuntimeError } from "../wire/errors.ts";
import { timeoutError } from "./network-errors.ts";
import type { SshLog } from "./openssh-log.ts";
import { type SshTarget, targetName } from "./target.ts";

const LAST_LINES = 3;

type Explanation = (said: string, target: SshTarget, log: SshLog) => RuntimeError;

/**
 * What ssh says (OpenSSH: sshconnect.c, sshconnect2.c, packet.c, channels.c) and what it means, the most telling first: a
 * changed key is followed by "Host key verification failed", and a failed jump by "Connection closed". Whole beginnings,
 * since a server's banner is printed among them.
 */
const MEANINGS: readonly [RegExp, Explanation][] = [
  [/^WARNING: REVOKED HOST KEY DETECTED/, revoked],
  [/^WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED/, changed],
  [/^No \S+ host key is known for .* and you have requested strict checking|^Host key verification failed/, unknownKey],
  [
    /^ssh: Could not resolve hostname |^channel \d+: open failed: connect failed: Name or service not known/,
    unknownHost,
  ],
  [/^(?:ssh: connect to host .*|channel \d+: open failed: connect failed): Connection refused/, refused],
  [/^(?:ssh: connect to host .*|channel \d+: open failed: connect failed): \w+ timed out/, timedOut],
  [/^(?:ssh_dispatch_run_fatal: )?Connection (?:to .* )?timed out/, timedOut],
  [/^\S+: Permission denied \(|^Received disconnect from .*: Too many authentication failures/, unauthenticated],
  [/^(?:command-line|\/.*):? line \d+: |: Bad configuration option: /, badConfiguration],
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

function unknownKey(said: string, target: SshTarget, log: SshLog): RuntimeError {
  return new RuntimeError(
    "host-key-unknown",
    `The host key of ${whoRefused(target, log)} is not known${log.hostKey === undefined ? "" : `: ${log.hostKey}`} (ssh said: ${said})`,
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

function timedOut(_said: string, target: SshTarget): RuntimeError {
  return timeoutError(target);
}

function unauthenticated(said: string, target: SshTarget, log: SshLog): RuntimeError {
  const methods = log.methods === undefined ? "" : `. It would accept ${log.methods}`;
  return new RuntimeError(
    "authentication-failed",
    `${whoRefused(target, log)} accepted none of the keys that ssh offered: ${log.offered.join(", ") || "none"}${methods} (ssh said: ${said})`,
    "Add a key that the host knows to the ssh agent, where one with a passphrase has to be, or name it with the option identityFile",
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

/** Before there is a key of the target's own, it is a jump that has refused us or was refused. */
function whoRefused(target: SshTarget, { hostKey }: SshLog): string {
  const name = targetName(target);
  return hostKey === undefined && target.proxyJump !== undefined
    ? `a host on the way to ${name} (ProxyJump ${target.proxyJump})`
    : name;
}

/** The line of a file of known hosts that ssh has named, as `file:line`. */
function placeIn(lines: readonly string[]): string | undefined {
  for (const line of lines) {
    const [, place] = /^Offending \S+ key in (\/.*:\d+)$/.exec(line) ?? [];
    if (place !== undefined) return place;
  }
  return undefined;
}

function known(hostKey: string | undefined): string {
  return hostKey === undefined ? "" : ` (${hostKey})`;
}

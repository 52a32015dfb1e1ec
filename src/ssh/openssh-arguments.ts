import type { SshTarget } from "./target.ts";

/**
 * Arguments of an `ssh` that logs in, starts nothing there, and serves others at a control socket. ssh reads ssh_config
 * itself; only what the options say, and what such a connection must not do, is given here, where it is stronger. The
 * keywords are those of OpenSSH 7.6, the oldest version that knows `accept-new`.
 *
 * @param controlPath where the socket will be
 */
export function masterArguments(target: SshTarget, controlPath: string): string[] {
  const { program } = target;
  const settings = [
    "BatchMode=yes",
    // Its news of the connection's progress are how we know that it stands, and whose key it has.
    "LogLevel=DEBUG1",
    `StrictHostKeyChecking=${target.hostKeyPolicy === "strict" ? "yes" : "accept-new"}`,
    // Otherwise an ssh_config could switch the check off for whatever looks like this machine.
    "NoHostAuthenticationForLocalhost=no",
    `ConnectTimeout=${seconds(target.connectTimeoutMs)}`,
    "ConnectionAttempts=1",
    `ServerAliveInterval=${seconds(target.keepaliveIntervalMs)}`,
    `ServerAliveCountMax=${target.keepaliveCountMax}`,
    `ForwardAgent=${target.forwardAgent ? "yes" : "no"}`,
    "ControlPersist=no",
    "ClearAllForwardings=yes",
    "ForwardX11=no",
    "Tunnel=no",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
    "RequestTTY=no",
    "VisualHostKey=no",
  ];
  // A keyword of OpenSSH 8.7; older ones would refuse it.
  if (program.forksItself) settings.push("ForkAfterAuthentication=no");
  if (program.identityFile !== undefined) settings.push(`IdentityFile=${quoted(program.identityFile)}`);
  if (program.identitiesOnly !== undefined) settings.push(`IdentitiesOnly=${program.identitiesOnly ? "yes" : "no"}`);
  if (program.proxyJump !== undefined) settings.push(`ProxyJump=${program.proxyJump}`);
  if (program.knownHostsFile !== undefined) settings.push(`UserKnownHostsFile=${quoted(program.knownHostsFile)}`);
  return [
    ...(program.configFile === undefined ? [] : ["-F", program.configFile]),
    ...(program.user === undefined ? [] : ["-l", program.user]),
    ...(program.port === undefined ? [] : ["-p", String(program.port)]),
    ...settings.flatMap((setting) => ["-o", setting]),
    ...["-N", "-T", "-M", "-S", controlPath.replaceAll("%", "%%")],
    // Without "--" a host that begins with a dash would be an option.
    ...["--", target.alias],
  ];
}

/** ssh counts in whole seconds, and takes 0 for never. */
function seconds(milliseconds: number): number {
  return Math.max(1, Math.ceil(milliseconds / 1000));
}

/** Where a path has blanks, and in it no token. */
function quoted(path: string): string {
  return `"${path.replace(/["\\]/g, "\\$&").replaceAll("%", "%%")}"`;
}

import { RuntimeError } from "../wire/errors.ts";
import { type SshTarget, targetName } from "./target.ts";

/** RFC 4254, 5.1. */
const ADMINISTRATIVELY_PROHIBITED = 1;
const UNKNOWN_CHANNEL_TYPE = 3;

/**
 * Why a jump host did not open a stream to a host behind it. The reason number tells a policy from a failed connection;
 * which failure it was only stands in the words, which OpenSSH takes from strerror(3) and gai_strerror(3).
 *
 * @param text what ssh2 makes of the server's words
 */
export function openFailure(
  hop: SshTarget,
  { host, port }: { host: string; port: number },
  reason: number | undefined,
  text: string,
): RuntimeError {
  const name = targetName(hop);
  if (reason === ADMINISTRATIVELY_PROHIBITED || reason === UNKNOWN_CHANNEL_TYPE) {
    return new RuntimeError(
      "forwarding-refused",
      `${name} does not forward connections to ${host} port ${port}`,
      "Check AllowTcpForwarding, PermitOpen and DisableForwarding in the sshd_config of that jump host",
    );
  }
  const words = text.replace(/^\(SSH\) Channel open failure: /, "").slice(0, 200);
  if (/refused/i.test(words)) {
    return new RuntimeError(
      "connection-refused",
      `${host} refuses connections on port ${port} from the jump host ${name}`,
      "Check the port, and that an SSH server runs there",
    );
  }
  if (/\bname\b|resol/i.test(words)) {
    return new RuntimeError(
      "host-unknown",
      `The jump host ${name} cannot resolve the host name "${host}" (${words})`,
      "Check the host, which the jump host has to know",
    );
  }
  return new RuntimeError(
    /timed? ?out/i.test(words) ? "connection-timeout" : "connection-failed",
    `The jump host ${name} does not reach ${host} port ${port} (${words})`,
    "Check the network behind the jump host",
  );
}

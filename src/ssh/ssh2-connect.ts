import { RuntimeError } from "../wire/errors.ts";
import { planAuthentication } from "./auth.ts";
import { Authenticator } from "./authenticator.ts";
import type { ConnectEvent, ConnectOptions } from "./connect-options.ts";
import { HostKeyGuard } from "./host-key.ts";
import { type ChainOptions, Ssh2Attempt } from "./ssh2-attempt.ts";
import type { Ssh2Carrier } from "./ssh2-carrier.ts";
import { StoredPassword } from "./stored-password.ts";
import { hopsOf, type SshTarget } from "./target.ts";
import { assertSupportedBySsh2 } from "./unsupported.ts";

/**
 * Connects and logs in with ssh2, jump host by jump host where the target has some. Each host key is checked before
 * anything of ours is sent to that host; one deadline, `connectTimeoutMs`, covers everything from the first name lookup to
 * the end of the last login.
 *
 * @param guard decides about the host key of the target; hops have their own
 * @throws RuntimeError option-invalid, host-unknown, connection-refused, connection-timeout, connection-failed,
 * connection-lost, proxy-failed, forwarding-refused, host-key-unknown, host-key-changed, host-key-revoked,
 * authentication-failed; what a hop fails with names the hop
 */
export async function connectSsh2(
  target: SshTarget,
  options: ConnectOptions = {},
  guard: HostKeyGuard = new HostKeyGuard(target),
): Promise<Ssh2Carrier> {
  const hops = hopsOf(target);
  for (const link of [...hops, target]) assertSupportedBySsh2(link);
  const deadlineAt = performance.now() + target.connectTimeoutMs;
  let via: Ssh2Carrier | undefined;
  for (const hop of hops) {
    try {
      const trace = (event: ConnectEvent) => options.trace?.({ ...event, hop: true });
      via = await connectOver(hop, { ...options, trace, deadlineAt, via }, new HostKeyGuard(hop));
    } catch (error) {
      via?.close();
      const { code, message, remedy } = RuntimeError.from(error);
      throw new RuntimeError(code, `Jump host ${hop.alias}: ${message}`, remedy, { cause: error });
    }
  }
  try {
    return await connectOver(target, { ...options, deadlineAt, via }, guard);
  } catch (error) {
    via?.close();
    throw error;
  }
}

async function connectOver(target: SshTarget, options: ChainOptions, guard: HostKeyGuard): Promise<Ssh2Carrier> {
  // The keys are read while the connection is being made.
  const { authSock, keychain } = options;
  const authenticator = planAuthentication(target, authSock, keychain).then(
    (plan) => new Authenticator(target, plan, new StoredPassword(target, keychain)),
  );
  return new Promise((resolve, reject) => {
    const attempt = new Ssh2Attempt(target, guard, options, resolve, reject);
    authenticator.then(
      (ready) => attempt.useAuthenticator(ready),
      (error) => attempt.fail(RuntimeError.from(error)),
    );
    try {
      attempt.start();
    } catch (error) {
      attempt.fail(RuntimeError.from(error));
    }
  });
}

import type { Carrier } from "./carrier.ts";
import type { ConnectOptions } from "./connect-options.ts";
import { connectOpenssh } from "./openssh-connect.ts";
import { opensshReasons } from "./openssh-reasons.ts";
import { connectSsh2 } from "./ssh2-connect.ts";
import type { SshTarget } from "./target.ts";

/**
 * Connects to a target and logs in, with whatever carrier the target needs.
 * @throws RuntimeError see the carriers
 */
export async function connect(target: SshTarget, options: ConnectOptions = {}): Promise<Carrier> {
  const reasons = opensshReasons(target);
  return await (reasons === undefined ? connectSsh2(target, options) : connectOpenssh(target, reasons, options));
}

import type { Carrier } from "./carrier.ts";
import { type ConnectOptions, connectSsh2 } from "./ssh2-connect.ts";
import type { SshTarget } from "./target.ts";

/**
 * Connects to a target and logs in, with whatever carrier the target needs.
 * @throws RuntimeError see the carriers
 */
export async function connect(target: SshTarget, options: ConnectOptions = {}): Promise<Carrier> {
  return await connectSsh2(target, options);
}

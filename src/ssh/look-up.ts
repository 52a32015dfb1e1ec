import { lookup } from "node:dns/promises";
import { connectError, timeoutError } from "./network-errors.ts";
import { familyOf, type SshTarget } from "./target.ts";

/**
 * Addresses of a host as the system gives them, best first; those that a connection would try.
 * @throws RuntimeError host-unknown, connection-timeout
 */
export async function lookUp(target: SshTarget): Promise<string[]> {
  const { host, connectTimeoutMs } = target;
  const family = familyOf(target);
  let timer: NodeJS.Timeout | undefined;
  // getaddrinfo(3) has a patience of its own, which nobody can change.
  const timeout = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(timeoutError(target)), connectTimeoutMs);
  });
  try {
    const looking = lookup(host, { all: true, family }).catch((error) => {
      throw connectError(error, target);
    });
    return (await Promise.race([looking, timeout])).map(({ address }) => address);
  } finally {
    clearTimeout(timer);
  }
}

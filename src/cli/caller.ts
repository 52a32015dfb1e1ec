import type { CallerEnvironment } from "../ssh/index.ts";

/** What of the person's environment decides how a host is reached; the same as a wrapper tells the broker. */
export function callerEnvironment(): CallerEnvironment {
  const { HOME, PATH, SSH_AUTH_SOCK } = process.env;
  return {
    ...(HOME === undefined ? {} : { HOME }),
    ...(PATH === undefined ? {} : { PATH }),
    ...(SSH_AUTH_SOCK ? { SSH_AUTH_SOCK } : {}),
  };
}

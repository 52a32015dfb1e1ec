import { createHash } from "node:crypto";
import { opensshReasons } from "./openssh-reasons.ts";
import { expandProxy } from "./proxy-tokens.ts";
import type { SshTarget } from "./target.ts";

/**
 * Two targets with the same key may share a connection: it covers where, as whom and over which way we connect and how
 * the hosts are known, not the limits and not the name that the person used. The `ssh` program looks that name up
 * itself, and finds there what does not stand in a target, so two names are two connections for it.
 */
export function targetKey(target: SshTarget): string {
  return createHash("sha256")
    .update(JSON.stringify(identityOf(target)))
    .digest("hex")
    .slice(0, 32);
}

function identityOf(target: SshTarget): unknown {
  const {
    alias,
    program,
    commandArguments: _arguments,
    connectTimeoutMs: _connect,
    keepaliveIntervalMs: _interval,
    keepaliveCountMax: _count,
    ...identity
  } = target;
  const { env: _env, ...settings } = program;
  return Object.entries({
    ...identity,
    ...(opensshReasons(target) === undefined ? {} : { alias, settings }),
    jump: target.jump && identityOf(target.jump),
    // The name that the person used counts where the command has it.
    proxyCommand: target.proxyCommand && expandProxy(target.proxyCommand, target),
  }).sort(([left], [right]) => (left < right ? -1 : 1));
}

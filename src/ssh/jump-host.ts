import { RuntimeError } from "../wire/errors.ts";
import { MAX_HOPS, parseProxyJump } from "./proxy-jump.ts";
import { expandProxy } from "./proxy-tokens.ts";
import { DEFAULT_PORT, type SshTarget, type TargetOptions } from "./target.ts";

/**
 * What to resolve for the last jump host of a target. OpenSSH runs `ssh [-l user] [-p port] [-J rest] [-F file] -W
 * [%h]:%p host` there (main in ssh.c): the hop has ssh_config's settings under its own name, is reached over the rest
 * of the list, and over its own ProxyJump or ProxyCommand only where nothing is left of the list.
 *
 * @param options those of the target itself
 * @param visited those of the targets on whose way it lies
 * @throws RuntimeError option-invalid when the list is wrong, has no end, or is too long
 */
export function jumpHostOptions(
  target: SshTarget,
  options: TargetOptions,
  visited: readonly TargetOptions[],
): TargetOptions {
  const text = expandProxy(target.proxyJump ?? "", target);
  const hops = parseProxyJump(text);
  const { host, user, port } = hops.at(-1)!;
  const rest = text.split(",").slice(0, -1).join(",");
  const { sshConfigFile, hostKeyPolicy, connectTimeoutMs, keepaliveIntervalMs } = options;
  const jump: TargetOptions = {
    host,
    ...(user === undefined ? {} : { user }),
    ...(port === undefined ? {} : { port }),
    ...(rest === "" ? {} : { proxyJump: rest }),
    ...(sshConfigFile === undefined ? {} : { sshConfigFile }),
    ...(hostKeyPolicy === undefined ? {} : { hostKeyPolicy }),
    ...(connectTimeoutMs === undefined ? {} : { connectTimeoutMs }),
    ...(keepaliveIntervalMs === undefined ? {} : { keepaliveIntervalMs }),
    carrier: "auto",
    forwardAgent: false,
  };
  const isItself =
    host === target.host && (port ?? DEFAULT_PORT) === target.port && (user ?? target.user) === target.user;
  if (isItself || [...visited, options].some((earlier) => isSameQuestion(earlier, jump))) {
    throw new RuntimeError(
      "option-invalid",
      `ProxyJump goes in a circle: "${host}" is reached over itself`,
      `Add "ProxyJump none" for "${host}" to ssh_config, above what sets ProxyJump for all hosts`,
    );
  }
  if (visited.length + 1 > MAX_HOPS) {
    throw new RuntimeError(
      "option-invalid",
      `The way to the host goes over more than ${MAX_HOPS} jump hosts`,
      "Correct ProxyJump in ssh_config",
    );
  }
  return jump;
}

/** ssh_config gives the same answer to both. */
function isSameQuestion(left: TargetOptions, right: TargetOptions): boolean {
  return (
    left.host === right.host &&
    left.user === right.user &&
    left.port === right.port &&
    left.proxyJump === right.proxyJump
  );
}

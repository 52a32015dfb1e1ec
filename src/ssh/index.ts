/**
 * Reaching a build host over SSH: what the options and ssh_config say about it, whether its key is known, which keys
 * log in, and a connection that opens byte streams and runs commands. The wrapper imports `options.ts` alone, since
 * everything here loads ssh2.
 */
export { agentSocket } from "./auth.ts";
export type { Carrier, CommandChannel, CommandExit } from "./carrier.ts";
export { connect } from "./connect.ts";
export type { ConnectEvent, ConnectOptions } from "./connect-options.ts";
export { Keychain } from "./keychain.ts";
export { lookUp } from "./look-up.ts";
export { OPTION_NAMES, parseRuntimeOptions, type RuntimeOptions, RuntimeOptionsSchema } from "./options.ts";
export { type HostKey, readHostKey, trustHostKey } from "./read-host-key.ts";
export { resolveTarget } from "./resolve-target.ts";
export { type CallerEnvironment, type SshTarget, targetName } from "./target.ts";
export { targetKey } from "./target-key.ts";

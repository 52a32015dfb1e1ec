/**
 * Quick acceptance of a runtime's options, for the wrapper: says yes only to what `parseRuntimeOptions` accepts, and
 * takes from it what the wrapper itself needs. Everything else goes to the schema, which a warm operation has no time
 * to build. test/ssh/accept-options.test.ts holds the two against each other.
 */

export const DEFAULT_RECONNECT_WINDOW_MS = 900_000;

/** What the wrapper needs of the options; the broker gets all of them. */
export interface WrapperOptions {
  host: string;
  path?: string[] | undefined;
  env?: Record<string, string> | undefined;
  helper?: string | false | undefined;
  forwardAgent?: boolean | undefined;
  reconnectWindowMs: number;
}

const MAX_CHARACTERS = 500;
const MAX_ENTRIES = 50;

const USER = "[A-Za-z0-9_][A-Za-z0-9._-]{0,127}";
const HOST = "[A-Za-z0-9][A-Za-z0-9._-]{0,254}";
const HOP = `(?:${USER}@)?${HOST}(?::[1-9][0-9]{0,3})?`;
const PATTERNS = {
  user: new RegExp(`^${USER}$`),
  host: new RegExp(`^${HOST}$`),
  /** The usual spelling; the schema knows more. */
  hops: new RegExp(`^${HOP}(?:,${HOP}){0,7}$`),
};

const isPath = (value: unknown) => isText(value, /^(?:\/|~\/)[^\x00-\x1f\x7f]*$/);
const isFlag = (value: unknown) => typeof value === "boolean";

const CHECKS: Record<string, (value: unknown) => boolean> = {
  host: (value) => isText(value, PATTERNS.host),
  user: (value) => isText(value, PATTERNS.user),
  port: (value) => isWithin(value, 1, 65_535),
  identityFile: isPath,
  knownHostsFile: isPath,
  sshConfigFile: isPath,
  identitiesOnly: isFlag,
  proxyJump: (value) => isText(value, PATTERNS.hops),
  hostKeyPolicy: (value) => value === "strict" || value === "accept-new",
  carrier: (value) => value === "auto" || value === "ssh2" || value === "openssh",
  root: isPath,
  node: isPath,
  provisionNode: isFlag,
  path: (value) =>
    Array.isArray(value) &&
    value.length <= MAX_ENTRIES &&
    value.every((entry) => isPath(entry) && !entry.includes(":")),
  env: isEnvironment,
  helper: (value) => value === false || isPath(value),
  forwardAgent: isFlag,
  connectTimeoutMs: (value) => isWithin(value, 100, 600_000),
  keepaliveIntervalMs: (value) => isWithin(value, 100, 300_000),
  reconnectWindowMs: (value) => isWithin(value, 0, 7 * 24 * 3_600_000),
  brokerIdleMs: (value) => isWithin(value, 100, 24 * 3_600_000),
};

/** @returns undefined to ask `parseRuntimeOptions` */
export function acceptRuntimeOptions(raw: Record<string, unknown>): WrapperOptions | undefined {
  for (const key of Object.keys(raw)) {
    if (!Object.hasOwn(CHECKS, key) || !CHECKS[key]!(raw[key])) return undefined;
  }
  if (raw.host === undefined) return undefined;
  return { reconnectWindowMs: DEFAULT_RECONNECT_WINDOW_MS, ...(raw as Partial<WrapperOptions> & { host: string }) };
}

function isText(value: unknown, pattern: RegExp): boolean {
  return typeof value === "string" && value.length <= MAX_CHARACTERS && pattern.test(value);
}

function isWithin(value: unknown, least: number, most: number): boolean {
  return Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most;
}

function isEnvironment(value: unknown): boolean {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const entries = Object.entries(value);
  return (
    entries.length <= MAX_ENTRIES &&
    entries.every(
      ([name, text]) =>
        /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) &&
        typeof text === "string" &&
        text.length <= MAX_CHARACTERS &&
        !text.includes("\0"),
    )
  );
}

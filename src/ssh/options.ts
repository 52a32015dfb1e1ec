import * as z from "zod/mini";
import { RuntimeError } from "../wire/errors.ts";
import { DEFAULT_RECONNECT_WINDOW_MS } from "./accept-options.ts";
import { checkUser, splitHost } from "./host.ts";
import { nearest } from "./nearest.ts";
import { parseProxyJump } from "./proxy-jump.ts";

/**
 * The runtime's options (docs/options.md). The short-lived wrapper reads them on every operation, so this file and what it imports stay
 * small: `zod/mini`, nothing of ssh2.
 *
 * Messages are fragments that complete `Option "x" …`; they say what is expected, never what was received, because a
 * value may be something that does not belong into a log.
 */

const MAX_TEXT_CHARACTERS = 4096;
const MAX_ENV_VALUE_CHARACTERS = 32_768;
const MAX_ENV_ENTRIES = 256;
const MAX_PATH_ENTRIES = 64;

const LOCAL_PATH = "must be a path that begins with / or ~/";
const REMOTE_PATH = "must be a path on the build host that begins with / or ~/";
const PROXY_JUMP = 'must be one or more hosts as in ssh_config\'s ProxyJump, or "none"';
const PATH_ENTRIES = `must be a list of at most ${MAX_PATH_ENTRIES} folders that begin with / or ~/ and contain no colon`;
const ENV_ENTRIES = `must be an object of at most ${MAX_ENV_ENTRIES} names (letters, digits, underscores) with text values`;

function text(problem: string) {
  return z.string(problem).check(z.refine((value) => isPlainText(value), problem));
}

function path(problem: string) {
  return z.string(problem).check(z.refine((value) => isPlainText(value) && /^(\/|~\/|~$)/.test(value), problem));
}

function milliseconds(least: number, most: number) {
  const problem = `must be a whole number of milliseconds from ${least} to ${most}`;
  return z.int(problem).check(z.refine((value) => value >= least && value <= most, problem));
}

function integer(least: number, most: number) {
  const problem = `must be a whole number from ${least} to ${most}`;
  return z.int(problem).check(z.refine((value) => value >= least && value <= most, problem));
}

function flag() {
  return z.boolean("must be true or false");
}

// A `z.record` would drop an entry named `__proto__` in silence.
const envSchema = z.custom<Record<string, string>>((value) => isEnvironment(value), ENV_ENTRIES);

const pathSchema = z
  .array(path(PATH_ENTRIES).check(z.refine((entry) => !entry.includes(":"), PATH_ENTRIES)), PATH_ENTRIES)
  .check(z.refine((entries) => entries.length <= MAX_PATH_ENTRIES, PATH_ENTRIES));

export const RuntimeOptionsSchema = z.strictObject({
  host: text('must be an alias from ssh_config, a host name or "user@host:port"'),
  user: z.optional(text("must be the name of an account")),
  port: z.optional(integer(1, 65_535)),
  identityFile: z.optional(path(LOCAL_PATH)),
  identitiesOnly: z.optional(flag()),
  proxyJump: z.optional(z.string(PROXY_JUMP).check(z.refine((value) => isProxyJump(value), PROXY_JUMP))),
  knownHostsFile: z.optional(path(LOCAL_PATH)),
  sshConfigFile: z.optional(path(LOCAL_PATH)),
  hostKeyPolicy: z.optional(
    z.enum(["strict", "accept-new"], 'must be "strict" or "accept-new"; host keys are always checked'),
  ),
  carrier: z._default(z.enum(["auto", "ssh2", "openssh"], 'must be "auto", "ssh2" or "openssh"'), "auto"),
  root: z._default(path(REMOTE_PATH), "~/.paseo-ssh-runtime"),
  node: z.optional(path(REMOTE_PATH)),
  provisionNode: z._default(flag(), false),
  path: z.optional(pathSchema),
  env: z.optional(envSchema),
  helper: z.optional(z.union([path(LOCAL_PATH), z.literal(false)], `${LOCAL_PATH}, or false`)),
  forwardAgent: z._default(flag(), false),
  connectTimeoutMs: z.optional(milliseconds(100, 600_000)),
  keepaliveIntervalMs: z.optional(milliseconds(100, 300_000)),
  reconnectWindowMs: z._default(milliseconds(0, 7 * 24 * 3_600_000), DEFAULT_RECONNECT_WINDOW_MS),
  brokerIdleMs: z._default(milliseconds(100, 24 * 3_600_000), 600_000),
});

/** Options with the defaults filled in; `host` holds the bare host, and `user` and `port` what stood beside it. */
export type RuntimeOptions = z.infer<typeof RuntimeOptionsSchema>;

export const OPTION_NAMES = Object.keys(RuntimeOptionsSchema.shape) as readonly (keyof RuntimeOptions)[];

/**
 * Validates the `options` of a runtime entry. Parsing its own result again gives the same result.
 *
 * @throws RuntimeError option-missing (no host), option-unknown (a key that does not exist), option-invalid
 */
export function parseRuntimeOptions(raw: Record<string, unknown>): RuntimeOptions {
  for (const key of Object.keys(raw)) {
    if (!(OPTION_NAMES as readonly string[]).includes(key)) throw unknownOption(key);
  }
  if (raw.host === undefined) {
    throw new RuntimeError(
      "option-missing",
      'Option "host" is missing',
      'Add "host" to the runtime\'s options: an alias from ssh_config, a host name or "user@host:port"',
    );
  }
  const parsed = z.safeParse(RuntimeOptionsSchema, raw);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw invalidOption(String(issue?.path[0] ?? "host"), issue?.message ?? "is not valid");
  }
  return withHostSplit(parsed.data);
}

function withHostSplit(options: RuntimeOptions): RuntimeOptions {
  const { host, user, port } = splitHost(options.host);
  if (options.user !== undefined) checkUser(options.user);
  if (user !== undefined && options.user !== undefined && user !== options.user) {
    throw invalidOption("user", 'says something else than the user in "host"');
  }
  if (port !== undefined && options.port !== undefined && port !== options.port) {
    throw invalidOption("port", 'says something else than the port in "host"');
  }
  return { ...options, host, ...(user === undefined ? {} : { user }), ...(port === undefined ? {} : { port }) };
}

function unknownOption(key: string): RuntimeError {
  const suggestion = nearest(key, OPTION_NAMES);
  return new RuntimeError(
    "option-unknown",
    `Unknown option "${key.slice(0, 100)}"`,
    suggestion === undefined ? `Known options are ${OPTION_NAMES.join(", ")}` : `Did you mean "${suggestion}"?`,
  );
}

function invalidOption(key: string, problem: string): RuntimeError {
  return new RuntimeError("option-invalid", `Option "${key}" ${problem}`, `Correct "${key}" in the runtime's options`);
}

function isPlainText(value: string): boolean {
  return value !== "" && value.length <= MAX_TEXT_CHARACTERS && !/[\x00-\x1f\x7f]/.test(value);
}

function isProxyJump(value: string): boolean {
  if (value.length > MAX_TEXT_CHARACTERS) return false;
  try {
    return parseProxyJump(value).length > 0;
  } catch {
    return false;
  }
}

function isEnvironment(value: unknown): boolean {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const entries = Object.entries(value);
  return (
    entries.length <= MAX_ENV_ENTRIES &&
    entries.every(([name, content]) => isEnvironmentName(name) && isEnvironmentValue(content))
  );
}

/** POSIX, Base Definitions 8.1; without `__proto__`, which as a key of an object is not an entry. */
function isEnvironmentName(name: string): boolean {
  return /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) && name !== "__proto__";
}

function isEnvironmentValue(content: unknown): boolean {
  return typeof content === "string" && content.length <= MAX_ENV_VALUE_CHARACTERS && !content.includes("\0");
}

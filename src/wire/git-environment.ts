/** The environment and the configuration under which both sides run git: quiet, non-interactive, free of the caller's repository. */

/**
 * Variables of the form GIT_… that reach git. All others are dropped: GIT_DIR and its like would point git at another
 * repository, GIT_TRACE and its like would write into what we read.
 */
const KEPT_GIT_VARIABLES = new Set([
  "GIT_CEILING_DIRECTORIES",
  "GIT_CONFIG_GLOBAL",
  "GIT_CONFIG_NOSYSTEM",
  "GIT_CONFIG_SYSTEM",
  "GIT_DISCOVERY_ACROSS_FILESYSTEM",
  "GIT_EXEC_PATH",
  "GIT_HTTP_LOW_SPEED_LIMIT",
  "GIT_HTTP_LOW_SPEED_TIME",
  "GIT_HTTP_PROXY_AUTHMETHOD",
  "GIT_SSH",
  "GIT_SSH_COMMAND",
  "GIT_SSH_VARIANT",
]);
const KEPT_GIT_PREFIXES = ["GIT_SSL_", "GIT_PROXY_SSL_"];

/** Transports that a source may use. Leaves out `ext::` and every other remote helper, which run commands of the URL's choice. */
const ALLOWED_PROTOCOLS = "file:git:http:https:ssh";

/** Configuration that wins over the account's. The rest of the account's configuration stays in force. */
export const GIT_SAFE_CONFIG: readonly string[] = [
  // Hooks are repository setup, which this product never runs.
  "core.hooksPath=/dev/null",
  "core.fsmonitor=false",
  "core.untrackedCache=false",
  // A split index would put a file into the repository that is read.
  "core.splitIndex=false",
  "core.quotePath=false",
  "color.ui=false",
  "gc.auto=0",
  "maintenance.auto=false",
  "protocol.ext.allow=never",
  "submodule.recurse=false",
  "clone.rejectShallow=false",
].flatMap((setting) => ["-c", setting]);

export function gitEnvironment(base: NodeJS.ProcessEnv = process.env): Record<string, string> {
  const environment: Record<string, string> = {
    // A transfer that moves less than 1 KB/s for a minute is dead; the account may say otherwise.
    GIT_HTTP_LOW_SPEED_LIMIT: "1000",
    GIT_HTTP_LOW_SPEED_TIME: "60",
  };
  for (const [name, value] of Object.entries(base)) {
    if (value === undefined || name === "SSH_ASKPASS" || name === "LANGUAGE") continue;
    if (name.startsWith("GIT_") && !isKept(name)) continue;
    environment[name] = value;
  }
  return {
    ...environment,
    LC_ALL: "C",
    GIT_ALLOW_PROTOCOL: ALLOWED_PROTOCOLS,
    // Empty, not absent: git would fall back to core.askPass and SSH_ASKPASS.
    GIT_ASKPASS: "",
    GIT_TERMINAL_PROMPT: "0",
    GCM_INTERACTIVE: "never",
    GIT_NO_REPLACE_OBJECTS: "1",
    GIT_OPTIONAL_LOCKS: "0",
  };
}

function isKept(name: string): boolean {
  return KEPT_GIT_VARIABLES.has(name) || KEPT_GIT_PREFIXES.some((prefix) => name.startsWith(prefix));
}

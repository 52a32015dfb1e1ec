import { parseArgs } from "node:util";
import { parseRuntimeOptions } from "../../ssh/index.ts";
import { RuntimeError } from "../../wire/errors.ts";

export const USAGE = `Usage: npm run demo [-- --host NAME [OPTION…]]

Shows a workspace on another machine from its creation to its end. Without --host that machine is an SSH server inside
the demo, so that it needs nothing but Node and git. With --host it is a real one, reached as \`ssh NAME\` reaches it.

  --host NAME              alias from ssh_config, host name, or user@host:port
  --user NAME, --port N, --identity-file PATH, --identities-only, --known-hosts-file PATH, --ssh-config-file PATH
                           as in ssh_config, and stronger than it
  --host-key-policy P      strict (default) or accept-new
  --node PATH              node on the host, when it is not found
  --root PATH              folder on the host; it stays. Without this the demo makes one of its own and removes it.
`;

/** Command line option → option of the runtime (docs/options.md), with the value that the command line's text means. */
const OPTIONS = {
  host: { name: "host", value: (text: string) => text },
  user: { name: "user", value: (text: string) => text },
  port: { name: "port", value: (text: string) => Number(text) },
  "identity-file": { name: "identityFile", value: (text: string) => text },
  "known-hosts-file": { name: "knownHostsFile", value: (text: string) => text },
  "ssh-config-file": { name: "sshConfigFile", value: (text: string) => text },
  "host-key-policy": { name: "hostKeyPolicy", value: (text: string) => text },
  node: { name: "node", value: (text: string) => text },
  root: { name: "root", value: (text: string) => text },
} as const;

export type DemoArguments =
  | { kind: "help" }
  | { kind: "embedded" }
  /** `options` are the runtime's, checked. */
  | { kind: "host"; options: Record<string, unknown> };

/**
 * @param args without node and the script
 * @throws RuntimeError usage, option-invalid
 */
export function parseDemoArguments(args: readonly string[]): DemoArguments {
  const values = parse(args);
  if (values.help === true) return { kind: "help" };
  const options: Record<string, unknown> = {};
  for (const [flag, { name, value }] of Object.entries(OPTIONS)) {
    const text = values[flag];
    if (typeof text === "string") options[name] = value(text);
  }
  if (values["identities-only"] === true) options.identitiesOnly = true;
  if (Object.keys(options).length === 0) return { kind: "embedded" };
  if (options.host === undefined) throw usage("The other options need --host");
  parseRuntimeOptions(options);
  return { kind: "host", options };
}

function parse(args: readonly string[]): Record<string, string | boolean | undefined> {
  const texts = Object.keys(OPTIONS).map((flag) => [flag, { type: "string" as const }]);
  try {
    const { values } = parseArgs({
      args: [...args],
      options: {
        ...Object.fromEntries(texts),
        "identities-only": { type: "boolean" },
        help: { type: "boolean", short: "h" },
      },
    });
    return values as Record<string, string | boolean | undefined>;
  } catch (error) {
    throw usage((error as Error).message);
  }
}

function usage(problem: string): RuntimeError {
  return new RuntimeError("usage", problem, "See: npm run demo -- --help");
}

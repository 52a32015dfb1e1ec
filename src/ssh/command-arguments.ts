import { shellWord } from "../wire/shell-word.ts";
import type { TargetOptions } from "./target.ts";

/** Options beside the host, user and port that decide which host is meant and where its key is filed. */
const DECIDING = ["proxyJump", "knownHostsFile", "sshConfigFile"] as const;

/**
 * How one of the operator's commands is told about the host that these options mean, for a message that a person copies
 * into a shell: `build@farm:2222 --option knownHostsFile=/etc/farm_hosts`.
 */
export function commandArguments(options: TargetOptions): string {
  const { host, user, port } = options;
  const bracketed = port !== undefined && host.includes(":") ? `[${host}]` : host;
  const destination = `${user === undefined ? "" : `${user}@`}${bracketed}${port === undefined ? "" : `:${port}`}`;
  const others = DECIDING.flatMap((name) =>
    options[name] === undefined ? [] : ["--option", `${name}=${options[name]}`],
  );
  return [destination, ...others].map(plainOrQuoted).join(" ");
}

/** As it is where no shell could take it for anything else. `~` stays quoted: we expand it ourselves. */
function plainOrQuoted(word: string): string {
  return /^[A-Za-z0-9@%+=:,./_-]+$/.test(word) ? word : shellWord(word);
}

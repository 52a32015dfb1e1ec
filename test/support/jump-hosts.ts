import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Sshd, type SshdOptions, startSshd } from "./sshd.ts";

/** Settings of one alias; `undefined` leaves one of the usual ones out, and `alias` gives another name to the server. */
export type HostLines = Record<string, string | undefined>;

/** Real servers with one ssh_config that has an alias for each of them, and nothing of this machine's own. */
export class JumpHosts {
  readonly configFile: string;
  readonly #servers: Record<string, Sshd>;
  #files = 0;

  /** Each server has a key pair, a file of known hosts, and authorized keys of its own. */
  static async start(servers: Record<string, SshdOptions>): Promise<JumpHosts> {
    const started = await Promise.all(
      Object.entries(servers).map(async ([alias, options]) => [alias, await startSshd(options)] as const),
    );
    return new JumpHosts(Object.fromEntries(started));
  }

  private constructor(servers: Record<string, Sshd>) {
    this.#servers = servers;
    this.configFile = this.config({});
  }

  get(alias: string): Sshd {
    return this.#servers[alias]!;
  }

  /** Writes an ssh_config with an alias for each server and these changes to it. @returns its path */
  config(changes: Record<string, HostLines>): string {
    const blocks = Object.entries(this.#servers).map(([alias, sshd]) => {
      const { alias: name = alias, ...own } = changes[alias] ?? {};
      const lines: HostLines = {
        HostName: sshd.host,
        Port: String(sshd.port),
        User: sshd.user,
        IdentityFile: sshd.identityFile,
        IdentitiesOnly: "yes",
        UserKnownHostsFile: sshd.knownHostsFile,
        GlobalKnownHostsFile: "none",
        ...own,
      };
      const settings = Object.entries(lines).flatMap(([keyword, value]) =>
        value === undefined ? [] : [`  ${keyword} ${value}\n`],
      );
      return `Host ${name}\n${settings.join("")}`;
    });
    const [first] = Object.values(this.#servers);
    this.#files += 1;
    const file = join(first!.folder, `ssh_config-${this.#files}`);
    writeFileSync(file, blocks.join(""), { mode: 0o600 });
    return file;
  }

  /** How often somebody has logged in to one of them. */
  logins(alias: string): number {
    return (
      this.get(alias)
        .log()
        .match(/Accepted publickey/g)?.length ?? 0
    );
  }

  async stop(): Promise<void> {
    await Promise.all(Object.values(this.#servers).map((sshd) => sshd.stop()));
  }
}

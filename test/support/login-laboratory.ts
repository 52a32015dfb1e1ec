import { execFile, execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "../../src/ssh/connect.ts";
import { parseRuntimeOptions } from "../../src/ssh/options.ts";
import { resolveTarget } from "../../src/ssh/resolve-target.ts";
import type { SshTarget } from "../../src/ssh/target.ts";
import { RuntimeError } from "../../src/wire/errors.ts";
import { type SshAgent, startSshAgent } from "./ssh-agent.ts";
import { SshRecorder } from "./ssh-recorder.ts";
import { generateKey, type Sshd, startSshd } from "./sshd.ts";

/** What became of an attempt to log in. `network` stands for everything between the name and the first host key. */
export type Outcome = "accepted" | "host-key" | "login" | "configuration" | "network";

/** What the servers have seen of one attempt. */
export interface Observation {
  outcome: Outcome;
  /** Servers in the order in which they were reached, with the user and the keys that were offered there, in order. */
  visits: string[];
}

export interface Attempt {
  /** ssh_config. Ports, keys and folders stand in it by name, as in `$targetPort`; see `#fill`. */
  config: string;
  /** Files of known hosts beside it. */
  files?: Record<string, string>;
  host?: string;
  /** The runtime's options, and what they are on the command line of ssh. */
  options?: Record<string, unknown>;
  args?: string[];
  agent?: boolean;
}

const SERVERS = ["hop1", "hop2", "target"] as const;
/** `good` and `spare` are let in by all servers. */
const KEYS = ["good", "spare", "stranger", "other"] as const;
const DEADLINE_MS = 20_000;

/** Puts in what stands behind the names of an attempt. */
type Fill = (text: string) => string;

/** Servers, keys and an agent on which `ssh` and this runtime try the same configurations. */
export class LoginLaboratory {
  readonly #folder = mkdtempSync(join(tmpdir(), "psr-lab-"));
  readonly #servers: Record<(typeof SERVERS)[number], Sshd>;
  readonly #agent: SshAgent;
  readonly #names = new Map<string, string>();
  #attempts = 0;

  static async start(): Promise<LoginLaboratory> {
    const options = { config: ["MaxStartups 200"], hostKeyTypes: ["ed25519", "rsa"] as ("ed25519" | "rsa")[] };
    const [hop1, hop2, target] = await Promise.all([startSshd(options), startSshd(options), startSshd(options)]);
    return new LoginLaboratory({ hop1: hop1!, hop2: hop2!, target: target! }, await startSshAgent());
  }

  private constructor(servers: Record<(typeof SERVERS)[number], Sshd>, agent: SshAgent) {
    this.#servers = servers;
    this.#agent = agent;
    for (const name of KEYS) this.#makeKey(name);
    execFileSync("ssh-keygen", ["-q", "-p", "-P", "", "-N", "secret", "-f", this.#copy("other", "encrypted")]);
    chmodSync(this.#copy("stranger", "exposed"), 0o644);
    this.#copy("good", "with blank");
    this.#copy("good", `id-target-${servers.target.user}`);
    const authorized = ["good", "spare"].map((name) => readFileSync(`${this.key(name)}.pub`, "utf8")).join("");
    for (const sshd of Object.values(servers)) writeFileSync(join(sshd.folder, "authorized_keys"), authorized);
    for (const name of ["stranger", "spare"]) agent.add(this.key(name));
  }

  key(name: string): string {
    return join(this.#folder, name);
  }

  /** Runs an attempt with both. */
  async compare(
    attempt: Attempt,
  ): Promise<{ ssh: Observation; ours: Observation; target?: SshTarget; without?: SshTarget | string }> {
    this.#attempts += 1;
    const folder = join(this.#folder, `attempt-${this.#attempts}`);
    mkdirSync(folder);
    const ssh = await this.#observe(folder, attempt, (file, fill) => this.#runSsh(file, fill, attempt));
    let targets: { target?: SshTarget; without?: SshTarget | string } = {};
    const ours = await this.#observe(folder, attempt, async (file, fill) => {
      const [outcome, found] = await this.#runOurs(file, fill, attempt);
      targets = found;
      return outcome;
    });
    return { ssh, ours, ...targets };
  }

  async stop(): Promise<void> {
    await Promise.all(Object.values(this.#servers).map((sshd) => sshd.stop()));
    await this.#agent.stop();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #makeKey(name: string): void {
    const file = generateKey(this.key(name), "ed25519");
    const printed = execFileSync("ssh-keygen", ["-l", "-f", `${file}.pub`], { encoding: "utf8" });
    this.#names.set(/SHA256:\S+/.exec(printed)![0], name);
  }

  #copy(name: string, copy: string): string {
    writeFileSync(this.key(copy), readFileSync(this.key(name)), { mode: 0o600 });
    writeFileSync(`${this.key(copy)}.pub`, readFileSync(`${this.key(name)}.pub`));
    return this.key(copy);
  }

  /** Each attempt has addresses of its own, so that what the servers log can be told apart. */
  async #observe(
    folder: string,
    { config, files = {} }: Attempt,
    run: (configFile: string, fill: Fill) => Promise<Outcome>,
  ): Promise<Observation> {
    const arrivals: string[] = [];
    // Port numbers come again.
    const marks = Object.fromEntries(SERVERS.map((name) => [name, this.#servers[name].log().length]));
    const recorders = await Promise.all(
      SERVERS.map((name) => SshRecorder.start(this.#servers[name], { onConnection: () => arrivals.push(name) })),
    );
    const place = Object.fromEntries(SERVERS.map((name, index) => [name, recorders[index]!]));
    try {
      const fill = (text: string) => this.#fill(text, folder, place);
      for (const [name, text] of Object.entries({ known: KNOWN, ...files }))
        writeFileSync(join(folder, name), fill(text));
      const configFile = join(folder, "config");
      writeFileSync(configFile, fill(`${config}\n${BASE}`), { mode: 0o600 });
      const outcome = await run(configFile, fill);
      await Promise.all(recorders.map((recorder) => recorder.quiet()));
      const visits = arrivals.map(
        (name) =>
          `${name}${this.#login(this.#servers[name as (typeof SERVERS)[number]].log().slice(marks[name]), place[name]!)}`,
      );
      return { outcome, visits };
    } finally {
      await Promise.all(recorders.map((recorder) => recorder.stop()));
    }
  }

  /** ` as USER with KEY, KEY`, by the server's own log. */
  #login(log: string, { sourcePorts }: SshRecorder): string {
    const pattern = / publickey for (?:invalid user )?(\S*) from \S+ port (\d+) ssh2: \S+ (SHA256:\S+)/g;
    const seen = [...log.matchAll(pattern)].filter(([, , port]) => sourcePorts.includes(Number(port)));
    if (seen.length === 0) return "";
    const keys = seen.map(([, , , fingerprint]) => this.#names.get(fingerprint!) ?? fingerprint);
    return ` as ${seen[0]![1] === this.#servers.target.user ? "me" : seen[0]![1]} with ${keys.join(", ")}`;
  }

  #fill(text: string, folder: string, place: Record<string, SshRecorder>): string {
    const key = (name: string, type: number) => this.#servers[name as (typeof SERVERS)[number]].hostPublicKeys[type]!;
    const values: Record<string, string> = {
      user: this.#servers.target.user,
      folder,
      keys: this.#folder,
      agent: this.#agent.socket,
      pipe: `${process.execPath} ${join(import.meta.dirname, "../fixtures/tcp-pipe.mjs")}`,
      strange: readFileSync(`${this.key("stranger")}.pub`, "utf8").trim(),
    };
    for (const name of SERVERS) {
      values[`${name}Port`] = String(place[name]!.port);
      values[`${name}Ed25519`] = key(name, 0);
      values[`${name}Rsa`] = key(name, 1);
    }
    return text.replace(/\$([a-z][A-Za-z0-9]*)/g, (whole, name: string) => values[name] ?? whole);
  }

  #environment({ agent }: Attempt): { HOME: string; PATH: string; SSH_AUTH_SOCK?: string } {
    return { HOME: this.#folder, PATH: process.env.PATH!, ...(agent ? { SSH_AUTH_SOCK: this.#agent.socket } : {}) };
  }

  #runSsh(configFile: string, fill: Fill, attempt: Attempt): Promise<Outcome> {
    const { host = "target", args = [] } = attempt;
    const all = ["-v", "-F", configFile, "-o", "BatchMode=yes", ...args.map(fill), "--", host, "true"];
    return new Promise((resolve) => {
      execFile("ssh", all, { env: this.#environment(attempt), timeout: DEADLINE_MS }, (error, _stdout, stderr) => {
        resolve(error === null ? "accepted" : outcomeOfSsh(stderr));
      }).stdin?.end();
    });
  }

  async #runOurs(
    configFile: string,
    fill: Fill,
    attempt: Attempt,
  ): Promise<[Outcome, { target?: SshTarget; without?: SshTarget | string }]> {
    const env = this.#environment(attempt);
    let target: SshTarget | undefined;
    let without: SshTarget | string | undefined;
    try {
      const raw = {
        host: attempt.host ?? "target",
        sshConfigFile: configFile,
        connectTimeoutMs: DEADLINE_MS,
        ...attempt.options,
      };
      const options = parseRuntimeOptions(JSON.parse(fill(JSON.stringify(raw))));
      target = await resolveTarget(options, env);
      without = await resolveTarget(options, { ...env, PATH: "/nonexistent" }).catch((error) => String(error.message));
      const carrier = await connect(target, { authSock: env.SSH_AUTH_SOCK, env });
      carrier.close();
      return ["accepted", { target, ...(without === undefined ? {} : { without }) }];
    } catch (error) {
      const found = { ...(target && { target }), ...(without && { without }) };
      return [outcomeOfOurs(RuntimeError.from(error)), found];
    }
  }
}

/** Stands behind the lines of an attempt, so that those win. */
const BASE = `
Host hop1
  HostName 127.0.0.1
  Port $hop1Port
  IdentityFile $keys/good
Host hop2
  HostName 127.0.0.1
  Port $hop2Port
  IdentityFile $keys/good
Host *
  User $user
  UserKnownHostsFile $folder/known
  GlobalKnownHostsFile none
  StrictHostKeyChecking yes
  HashKnownHosts no
  # The default of ssh takes more time than all the rest of a login.
  KexAlgorithms curve25519-sha256
`;

const KNOWN = SERVERS.flatMap((name) =>
  ["127.0.0.1", "localhost"].map(
    (host) => `[${host}]:$${name}Port $${name}Ed25519\n[${host}]:$${name}Port $${name}Rsa\n`,
  ),
).join("");

function outcomeOfSsh(stderr: string): Outcome {
  const words = stderr
    .split("\n")
    .filter((line) => !line.startsWith("debug1: "))
    .join("\n");
  if (/Host key verification failed|host key is known|REMOTE HOST IDENTIFICATION/i.test(words)) return "host-key";
  if (/Permission denied \(|Too many authentication failures/.test(words)) return "login";
  if (
    /bad configuration|Bad (?:number|port|configuration)|invalid characters|jumphost loop|unknown key %|Invalid ProxyJump|argument/.test(
      words,
    )
  ) {
    return "configuration";
  }
  return "network";
}

function outcomeOfOurs({ code }: RuntimeError): Outcome {
  if (code.startsWith("host-key-")) return "host-key";
  if (code === "authentication-failed") return "login";
  return code === "option-invalid" ? "configuration" : "network";
}

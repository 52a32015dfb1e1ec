import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { agentPidsOf, endAgents, endWrappers, isRunning, killAgents } from "./processes.ts";
import { type ExecResult, type OperationResult, RuntimeClient } from "./runtime.ts";
import { type Sshd, type SshdOptions, startSshd } from "./sshd.ts";

type ClientSettings = NonNullable<ConstructorParameters<typeof RuntimeClient>[1]>;

/** What an end-to-end test file has for itself: one sshd on loopback, one root folder on it, and a place for sources. */
export class BuildHost {
  readonly sshd: Sshd;
  /** Temporary folder of this file, removed by `stop`. */
  readonly folder = mkdtempSync(join(tmpdir(), "psr-e2e-"));
  /** The runtime's root on the host. */
  readonly root = join(this.folder, "root");
  readonly #clients: RuntimeClient[] = [];
  readonly #roots = new Set([this.root]);
  #names = 0;

  static async start(options: SshdOptions = {}): Promise<BuildHost> {
    return new BuildHost(await startSshd(options));
  }

  private constructor(sshd: Sshd) {
    this.sshd = sshd;
    mkdirSync(this.root, { mode: 0o700 });
  }

  /** A Paseo installation with a broker of its own, without a helper unless the options name one. */
  client(extra: Record<string, unknown> = {}, settings: ClientSettings = {}): RuntimeClient {
    const options = this.sshd.options({ root: this.root, helper: false, ...extra });
    if (typeof options.root === "string") this.#roots.add(options.root);
    const client = new RuntimeClient(options, settings);
    this.#clients.push(client);
    return client;
  }

  /** The line of authorized_keys that lets this host's clients in. */
  get publicKey(): string {
    return readFileSync(`${this.sshd.identityFile}.pub`, "utf8");
  }

  path(...parts: string[]): string {
    return join(this.folder, ...parts);
  }

  /** A workspace id or a file name that this file has not used. */
  newName(prefix = "workspace"): string {
    this.#names += 1;
    return `${prefix}-${this.#names}`;
  }

  /** As after a crash; the next operation starts another agent. */
  async killAgents(root = this.root): Promise<void> {
    await killAgents(root);
  }

  agentPids(root = this.root): number[] {
    return agentPidsOf(root);
  }

  /** A new folder with nothing in it. */
  emptyFolder(): string {
    const folder = this.path(this.newName("folder"));
    mkdirSync(folder);
    return folder;
  }

  /** How often somebody has logged in. */
  logins(): number {
    return this.sshd.log().match(/Accepted publickey/g)?.length ?? 0;
  }

  workspaceFolders(root = this.root): string[] {
    return namesIn(join(root, "workspaces"));
  }

  /** The folder that holds a workspace's content, for an id that is its own slug. */
  workspaceFolder(workspaceId: string, root = this.root): string {
    const name = this.workspaceFolders(root).find((entry) => entry.replace(/-[0-9a-f]{16}$/, "") === workspaceId);
    if (name === undefined) throw new Error(`There is no folder of the workspace ${workspaceId}`);
    return join(root, "workspaces", name);
  }

  trash(root = this.root): string[] {
    return namesIn(join(root, "trash"));
  }

  /** Everything below the root that an operation could leave behind; logs and git's caches may grow. */
  listing(root = this.root): string[] {
    return readdirSync(root, { recursive: true, encoding: "utf8" })
      .filter((path) => !/^(?:logs|cache)(?:\/|$)/.test(path))
      .sort();
  }

  async stop(): Promise<void> {
    for (const { brokerFolder } of this.#clients) await endWrappers(brokerFolder);
    await Promise.all(this.#clients.map((client) => client.close()));
    for (const root of this.#roots) await endAgents(root);
    await this.sshd.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder).sort();
  } catch {
    return [];
  }
}

/** Brokers that live and have a socket in this client's folder, whichever of them has the public name. */
export function brokerPids(client: RuntimeClient): number[] {
  return namesIn(client.brokerFolder)
    .map((name) => Number(/^broker-[0-9a-f]+\.(\d+)\.sock$/.exec(name)?.[1]))
    .filter((pid) => !Number.isNaN(pid) && isRunning(pid));
}

/** What a command that has to succeed prints, without the newline at its end. */
export async function outputOf(client: RuntimeClient, workspaceId: string, argv: string[]): Promise<string> {
  const { code, stdout, stderr } = await client.execute(workspaceId, argv);
  if (code !== 0) throw new Error(`${argv.join(" ")} ended with ${code}: ${stderr}`);
  return stdout.toString("utf8").replace(/\n$/, "");
}

/** The code of a failure that is told as it has to be: one line on stderr, nothing on stdout. Else a text that has it all. */
export function failureCode({ code, signal, stdout, stderr }: OperationResult): string {
  const line = /^[^\n]+ \[([a-z-]+)\]\n$/.exec(stderr);
  if (typeof code === "number" && code !== 0 && stdout === "" && line !== null) return line[1]!;
  return JSON.stringify({ code, signal, stdout, stderr });
}

/** The same for an exec, which has to tell it on descriptor 4 as well, with nothing behind it. */
export function execFailureCode({ events, stdout, stderr, ...exit }: ExecResult): string {
  const last = events.at(-1);
  const code = failureCode({ ...exit, stdout: stdout.toString("utf8"), stderr: stderr.toString("utf8") });
  const told = last?.type === "error" && `${last.message}\n` === stderr.toString("utf8");
  const before = events.slice(0, -1).every((event) => event.type === "started" || event.type === "resized");
  return told && before ? code : JSON.stringify({ code, events });
}

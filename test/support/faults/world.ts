import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { commit, git, write } from "../../workspace/fixture.ts";
import { ACCOUNT_HOST, type Account, addAccount } from "../accounts.ts";
import { BuildHost } from "../build-host.ts";
import type { RuntimeClient } from "../runtime.ts";
import { generateKey, type Sshd, startSshd } from "../sshd.ts";

/** Everything that the faults of the catalogue share: hosts, accounts, file systems and workspaces, made once. */
export class FaultWorld {
  readonly host: BuildHost;
  /** The server for accounts. */
  readonly accountHost: BuildHost;
  /** A server that starts no command. */
  readonly withoutSessions: Sshd;
  readonly client: RuntimeClient;
  readonly accounts: Record<"nologin" | "exiting" | "hanging", Account>;
  /** A git repository as a source. */
  readonly url: string;
  readonly #mounts: string[] = [];
  readonly #servers: Server[] = [];
  readonly #sockets = new Set<Socket>();
  readonly #stopped: number[] = [];

  static async make(): Promise<FaultWorld> {
    const [host, accountHost, withoutSessions] = await Promise.all([
      BuildHost.start(),
      BuildHost.start(ACCOUNT_HOST),
      startSshd({ config: ["MaxSessions 0"] }),
    ]);
    return new FaultWorld(host, accountHost, withoutSessions);
  }

  private constructor(host: BuildHost, accountHost: BuildHost, withoutSessions: Sshd) {
    this.host = host;
    this.accountHost = accountHost;
    this.withoutSessions = withoutSessions;
    this.client = host.client();
    this.accounts = {
      nologin: addAccount(accountHost, { shell: "/usr/sbin/nologin" }),
      exiting: addAccount(accountHost, { shell: "/bin/false" }),
      hanging: addAccount(accountHost, { shell: "/bin/bash" }),
    };
    this.accounts.hanging.write(".bashrc", "sleep 20\n");
    const repository = host.path("repository");
    write(join(repository, "folder", "file"), "x\n");
    symlinkSync("/etc", join(repository, "out"));
    git(repository, "init", "-q", "-b", "main");
    commit(repository);
    this.url = `file://${repository}`;
  }

  async prepareWorkspaces(): Promise<void> {
    const source = { kind: "git", url: this.url, revision: "" };
    for (const id of ["ready", "paused", "broken"]) await this.client.create(id, source);
    await this.client.ok(["pause", "--workspace-id", "paused"]);
    writeFileSync(join(this.host.workspaceFolder("broken"), "workspace.json"), "{");
  }

  /** A file of this world with this content. @returns its path */
  file(content: string, mode = 0o644): string {
    const path = this.host.path(this.host.newName("file"));
    writeFileSync(path, content, { mode });
    return path;
  }

  knownHosts(...lines: string[]): string {
    return this.file(lines.map((line) => `[127.0.0.1]:${this.host.sshd.port} ${line}\n`).join(""));
  }

  newKey(passphrase = ""): string {
    return generateKey(this.host.path(this.host.newName("key")), "ed25519", passphrase);
  }

  newPublicKey(): string {
    return readFileSync(`${this.newKey()}.pub`, "utf8").trim();
  }

  /** A folder with a small file system of its own. */
  mount(options: string): string {
    const path = this.host.emptyFolder();
    execFileSync("mount", ["-t", "tmpfs", "-o", options, "none", path]);
    this.#mounts.push(path);
    return path;
  }

  /** A TCP server that does this with every connection. @returns its port */
  async server(misbehave: (socket: Socket) => void): Promise<number> {
    const server = createServer((socket) => {
      this.#sockets.add(socket.on("error", () => {}));
      misbehave(socket);
    });
    this.#servers.push(server.listen(0, "127.0.0.1"));
    await once(server, "listening");
    return (server.address() as AddressInfo).port;
  }

  /** A port whose connections are never answered: its listener is stopped and its queue is full. */
  async blackHole(): Promise<number> {
    const listen = 'const s=require("net").createServer();s.listen({port:0,host:"127.0.0.1",backlog:1},';
    const stop = '()=>{require("fs").writeSync(1,s.address().port+"\\n");process.kill(process.pid,"SIGSTOP")})';
    const child = spawn(process.execPath, ["-e", listen + stop], { stdio: ["ignore", "pipe", "ignore"] });
    this.#stopped.push(child.pid!);
    const [line] = await once(child.stdout, "data");
    const port = Number(String(line));
    for (let fill = 0; fill < 4; fill += 1) {
      const socket = connect(port, "127.0.0.1");
      this.#sockets.add(socket.on("error", () => {}));
    }
    return port;
  }

  folder(): string {
    return this.host.emptyFolder();
  }

  async end(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    for (const server of this.#servers) server.close();
    for (const pid of this.#stopped) process.kill(pid, "SIGKILL");
    await this.client.close();
    for (const account of Object.values(this.accounts)) await account.remove();
    for (const path of this.#mounts) execFileSync("umount", [path]);
    await this.withoutSessions.stop();
    await this.accountHost.stop();
    await this.host.stop();
  }
}

/** A folder whose path leaves no room for a socket. */
export function deepFolder(world: FaultWorld): string {
  const path = join(world.folder(), "d".repeat(100));
  mkdirSync(path, { mode: 0o700 });
  return path;
}

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";

/**
 * A real OpenSSH server on loopback for one test file. Its limits (MaxSessions, MaxStartups, MaxAuthTries) are those of
 * a stock server unless a test passes others: raised limits would hide the product's mistakes.
 */

export type KeyType = "ed25519" | "ecdsa" | "rsa";

export interface SshdOptions {
  /** Lines of sshd_config that come before ours; the first value of a keyword wins. */
  config?: string[];
  /** Key pairs of the client; all are in authorized_keys, the first is `identityFile`. Default: one ed25519. */
  clientKeyTypes?: KeyType[];
  /** Keys that the server presents. Default: one ed25519. */
  hostKeyTypes?: KeyType[];
  /** A fixed port, for a server that comes back where another was. Default: a free one. */
  port?: number;
  /** Listen at this address of a network namespace instead of on loopback. */
  within?: { namespace: string; address: string };
}

export interface Sshd {
  host: string;
  port: number;
  user: string;
  /** Private key that the server accepts; `<identityFile>.pub` lies beside it. */
  identityFile: string;
  /** One private key per entry of `clientKeyTypes`. */
  identityFiles: string[];
  /** Holds the server's host keys under its address. */
  knownHostsFile: string;
  /** Public halves of the host keys, one line each, as in `ssh_host_*.pub`. */
  hostPublicKeys: string[];
  /** Private folder of this server, removed by `stop`; tests may put files into it. */
  folder: string;
  /** The server's log at level VERBOSE: one line per authentication attempt. */
  logFile: string;
  /** Process id of the listener. */
  pid: number;
  log(): string;
  /** Runtime `options` that reach this server and nothing of the machine's own ssh configuration. */
  options(extra?: Record<string, unknown>): Record<string, unknown>;
  /** Ends the processes of all open connections (a server that drops its clients), and leaves the listener alone. */
  killSessions(): void;
  /** Ends the listener, its connections and what they run, and removes the folder. */
  stop(): Promise<void>;
}

const SSHD_PATHS = ["/usr/sbin/sshd", "/usr/local/sbin/sshd", "/opt/homebrew/sbin/sshd", "/usr/lib/ssh/sshd"];
const START_DEADLINE_MS = 15_000;
const START_ATTEMPTS = 5;

/** @throws Error on CI when there is no sshd: there, a test that did not run must not look like one that passed */
export function sshdAvailable(): boolean {
  const found = findSshd() !== undefined;
  if (!found && process.env.CI === "true") throw new Error("No sshd on this machine, and CI must not go without one");
  return found;
}

export async function startSshd(options: SshdOptions = {}): Promise<Sshd> {
  const program = findSshd();
  if (program === undefined) throw new Error(`No sshd at ${SSHD_PATHS.join(", ")}`);
  // Without it sshd refuses to run as root ("Missing privilege separation directory"); distributions create it at boot.
  if (userInfo().uid === 0) mkdirSync("/run/sshd", { recursive: true, mode: 0o755 });

  const folder = mkdtempSync(join(tmpdir(), "sshd-"));
  try {
    const identityFiles = (options.clientKeyTypes ?? ["ed25519"]).map((type) =>
      generateKey(join(folder, `id_${type}`), type),
    );
    const hostKeys = (options.hostKeyTypes ?? ["ed25519"]).map((type) =>
      generateKey(join(folder, `host_${type}`), type),
    );
    const hostPublicKeys = hostKeys.map((file) => readFileSync(`${file}.pub`, "utf8").trim());
    writeFileSync(
      join(folder, "authorized_keys"),
      identityFiles.map((file) => readFileSync(`${file}.pub`, "utf8")).join(""),
    );
    writeFileSync(join(folder, "empty_ssh_config"), "");

    const logFile = join(folder, "sshd.log");
    const { child, port } = await launch(program, folder, logFile, hostKeys, options);
    const knownHostsFile = join(folder, "known_hosts");
    const host = options.within?.address ?? "127.0.0.1";
    const name = port === 22 ? host : `[${host}]:${port}`;
    writeFileSync(knownHostsFile, hostPublicKeys.map((key) => `${name} ${key}\n`).join(""));

    const user = userInfo().username;
    const identityFile = identityFiles[0]!;
    const pid = child.pid!;
    // A test run that ends before `stop` leaves no server behind.
    const killListener = () => void child.kill("SIGKILL");
    process.once("exit", killListener);
    return {
      host,
      port,
      user,
      identityFile,
      identityFiles,
      knownHostsFile,
      hostPublicKeys,
      folder,
      logFile,
      pid,
      log: () => readFileSync(logFile, "utf8"),
      options: (extra = {}) => ({
        host,
        port,
        user,
        identityFile,
        identitiesOnly: true,
        knownHostsFile,
        sshConfigFile: join(folder, "empty_ssh_config"),
        ...extra,
      }),
      killSessions: () => killAll(descendants(pid)),
      stop: async () => {
        process.removeListener("exit", killListener);
        if (child.exitCode === null && child.signalCode === null) {
          const exited = once(child, "exit");
          // The listener is stopped first, so that the list of its children is complete.
          child.kill("SIGSTOP");
          killAll(descendants(pid));
          child.kill("SIGKILL");
          await exited;
        }
        rmSync(folder, { recursive: true, force: true });
      },
    };
  } catch (error) {
    rmSync(folder, { recursive: true, force: true });
    throw error;
  }
}

/** Makes a key pair without a passphrase unless one is given. Returns the private file's path. */
export function generateKey(file: string, type: KeyType, passphrase = "", comment = `${type} test key`): string {
  const bits = type === "rsa" ? ["-b", "2048"] : [];
  execFileSync("ssh-keygen", ["-q", "-t", type, ...bits, "-N", passphrase, "-C", comment, "-f", file], {
    stdio: "ignore",
  });
  return file;
}

/** Another process may take the free port before sshd does; then another port is tried. */
async function launch(
  program: string,
  folder: string,
  logFile: string,
  hostKeys: string[],
  options: SshdOptions,
): Promise<{ child: ChildProcess; port: number }> {
  for (let attempt = 1; ; attempt += 1) {
    const port = options.port ?? (await freePort());
    const configFile = join(folder, "sshd_config");
    writeFileSync(
      configFile,
      [
        ...(options.config ?? []),
        `ListenAddress ${options.within?.address ?? "127.0.0.1"}`,
        `Port ${port}`,
        ...hostKeys.map((file) => `HostKey ${file}`),
        `AuthorizedKeysFile ${join(folder, "authorized_keys")}`,
        "PidFile none",
        // The folder lies below /tmp, which is writable for everybody.
        "StrictModes no",
        "LogLevel VERBOSE",
        "",
      ].join("\n"),
    );
    const [command, ...args] = [...namespaceCommand(options), program, "-D", "-f", configFile, "-E", logFile];
    const child = spawn(command!, args, { stdio: "ignore" });
    // A namespace may be out of reach from here.
    const listening = options.within === undefined ? () => readsBanner(port) : async () => saysThatItListens(logFile);
    if (await comesUp(child, listening)) return { child, port };
    child.kill("SIGKILL");
    if (attempt === START_ATTEMPTS || options.port !== undefined) {
      throw new Error(`sshd did not start: ${existsSync(logFile) ? readFileSync(logFile, "utf8") : "no log"}`);
    }
  }
}

/** ip-netns(8); `ip` becomes the program, so its process id is that of sshd. */
function namespaceCommand({ within }: SshdOptions): string[] {
  return within === undefined ? [] : ["ip", "netns", "exec", within.namespace];
}

function saysThatItListens(logFile: string): boolean {
  return existsSync(logFile) && readFileSync(logFile, "utf8").includes("Server listening on");
}

async function comesUp(child: ChildProcess, listening: () => Promise<boolean>): Promise<boolean> {
  const deadline = Date.now() + START_DEADLINE_MS;
  let ended = false;
  child.once("exit", () => {
    ended = true;
  });
  child.once("error", () => {
    ended = true;
  });
  while (!ended && Date.now() < deadline) {
    if (await listening()) return !ended;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  return false;
}

function readsBanner(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    const settle = (answered: boolean) => {
      socket.destroy();
      resolve(answered);
    };
    socket.once("data", (chunk) => settle(chunk.toString("latin1").startsWith("SSH-2.0-")));
    socket.once("error", () => settle(false));
    socket.once("end", () => settle(false));
  });
}

/** A port that nothing listens on at this moment. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("A TCP server without a port");
  return address.port;
}

function findSshd(): string | undefined {
  return SSHD_PATHS.find((path) => existsSync(path));
}

/** All processes below `pid`, deepest last. */
function descendants(pid: number): number[] {
  const children = new Map<number, number[]>();
  for (const line of execFileSync("ps", ["-A", "-o", "pid=,ppid="], { encoding: "utf8" }).split("\n")) {
    const [child, parent] = line.trim().split(/\s+/).map(Number);
    if (child !== undefined && parent !== undefined) children.set(parent, [...(children.get(parent) ?? []), child]);
  }
  const found: number[] = [];
  for (const queue = [...(children.get(pid) ?? [])]; queue.length > 0; ) {
    const next = queue.shift()!;
    found.push(next);
    queue.push(...(children.get(next) ?? []));
  }
  return found;
}

function killAll(pids: number[]): void {
  for (const pid of pids) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // It ended by itself.
    }
  }
}

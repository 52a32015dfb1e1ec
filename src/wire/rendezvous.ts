import { chmodSync, lstatSync, readdirSync, readlinkSync, renameSync, symlinkSync, unlinkSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import { basename, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { RuntimeError } from "./errors.ts";

/**
 * How a daemon of ours (broker or agent) becomes the one that a name leads to, whatever a crash has left behind. Each
 * process listens on a socket of its own, `<name>.<pid>.sock`; the public name `<name>.sock` is a symbolic link to it.
 * Where there is no link, creating one is atomic. One that leads to a dead process is replaced, and since no system call
 * compares before it replaces, whoever replaces or removes a link holds `<name>.lock` for the few microseconds of that.
 */

/** Longest path of a unix socket on every system that we run on (macOS: 104 bytes with the closing NUL). */
export const MAX_SOCKET_PATH_BYTES = 103;

/** How long a name may be contested, in ms. */
const CLAIM_LIMIT_MS = 10_000;
/** Wait before the next look at a lock that is held, in ms. */
const LOCK_POLL_MS = 2;
/** A lock older than this was left behind by a crash, in ms: nothing that takes time is done under it. */
const LOCK_LIMIT_MS = 5000;

export interface Claim {
  server: Server;
  /** Path of this process's own socket; stays reachable when another process takes the public name over. */
  privatePath: string;
  /** Whether the public name still leads to this process. */
  held(): boolean;
  /** Stops listening and gives the name up, when it is still ours. */
  release(): void;
}

/** Where this process would listen for a name. Longer than MAX_SOCKET_PATH_BYTES, it would be cut off in silence. */
export function ownSocketPath(folder: string, name: string): string {
  return join(folder, `${name}.${process.pid}.sock`);
}

export function publicSocketPath(folder: string, name: string): string {
  return join(folder, `${name}.sock`);
}

/**
 * @param takeOver take the name from a live process (which keeps its own socket) instead of giving way to it
 * @param onConnection gets every connection; half-open sockets are allowed
 * @returns undefined when a live process holds the name
 */
export async function claimName(
  folder: string,
  name: string,
  onConnection: (socket: Socket) => void,
  takeOver = false,
): Promise<Claim | undefined> {
  removeDeadSockets(folder, name);
  const privatePath = ownSocketPath(folder, name);
  const ownName = basename(privatePath);
  const publicPath = publicSocketPath(folder, name);
  unlinkQuietly(privatePath);
  const server = createServer({ allowHalfOpen: true }, onConnection);
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(privatePath, () => resolve());
  });
  chmodSync(privatePath, 0o600);
  const lock = new NameLock(join(folder, `${name}.lock`));
  const held = () => readLink(publicPath) === ownName;
  const release = () => {
    server.close();
    try {
      // Who has the lock now is replacing this link anyway.
      if (held()) lock.tryRun(() => held() && unlinkQuietly(publicPath));
    } catch {
      // The disk is full or the folder gone: the link stays behind, and leads to nobody.
    }
    unlinkQuietly(privatePath);
  };
  /** @returns false when the name leads elsewhere by now */
  const replace = (target: string) => {
    if (readLink(publicPath) !== target) return false;
    const temporary = join(folder, `${name}.${process.pid}.link`);
    unlinkQuietly(temporary);
    symlinkSync(ownName, temporary);
    renameSync(temporary, publicPath);
    return true;
  };
  const deadline = Date.now() + CLAIM_LIMIT_MS;
  while (Date.now() < deadline) {
    const target = readLink(publicPath);
    if (target === undefined) {
      if (tryLink(ownName, publicPath)) return { server, privatePath, held, release };
    } else if (!takeOver && (await answers(publicPath))) {
      release();
      return undefined;
    } else if (lock.tryRun(() => replace(target))) {
      return { server, privatePath, held, release };
    }
    await delay(LOCK_POLL_MS);
  }
  release();
  throw new RuntimeError("internal", `The socket name ${publicPath} could not be claimed`, "Try again");
}

/** Excludes other processes, for the time of a function that waits for nothing. A crash inside it blocks for seconds. */
class NameLock {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  /** @returns what the action returns, or undefined when another process has the lock */
  tryRun<T>(action: () => T): T | undefined {
    if (!tryLink(String(process.pid), this.#path)) {
      if (this.#isLeft()) unlinkQuietly(this.#path);
      return undefined;
    }
    try {
      return action();
    } finally {
      unlinkQuietly(this.#path);
    }
  }

  #isLeft(): boolean {
    const holder = Number(readLink(this.#path) ?? process.pid);
    if (!isAlive(holder)) return true;
    try {
      return Date.now() - lstatSync(this.#path).mtimeMs > LOCK_LIMIT_MS;
    } catch {
      return false;
    }
  }
}

/** Whether a process listens behind this path. */
export function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    // EAGAIN: its backlog is full, so it lives.
    socket.once("error", (error: NodeJS.ErrnoException) => resolve(error.code === "EAGAIN"));
  });
}

function tryLink(target: string, path: string): boolean {
  try {
    symlinkSync(target, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

function removeDeadSockets(folder: string, name: string): void {
  for (const entry of readdirSync(folder)) {
    if (!entry.startsWith(`${name}.`)) continue;
    const pid = Number(/\.(\d+)\.(?:sock|link)$/.exec(entry)?.[1] ?? 0);
    if (pid > 0 && !isAlive(pid)) unlinkQuietly(join(folder, entry));
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

function readLink(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch {
    return undefined;
  }
}

function unlinkQuietly(path: string): void {
  try {
    unlinkSync(path);
  } catch {
    // Somebody else was faster, or it was never there.
  }
}

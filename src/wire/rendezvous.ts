import { chmodSync, readdirSync, readlinkSync, renameSync, symlinkSync, unlinkSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { RuntimeError } from "./errors.ts";

/**
 * How a daemon of ours (broker or agent) becomes the one that a name leads to, without locks that a crash leaves behind.
 * Each process listens on a socket of its own, `<name>.<pid>.sock`; the public name `<name>.sock` is a symbolic link to
 * it, and creating or renaming a link is atomic. A link whose process is gone is no obstacle.
 */

/** Longest path of a unix socket on every system that we run on (macOS: 104 bytes with the closing NUL). */
export const MAX_SOCKET_PATH_BYTES = 103;

const CLAIM_ATTEMPTS = 50;

export interface Claim {
  server: Server;
  /** Path of this process's own socket; stays reachable when another process takes the public name over. */
  privatePath: string;
  /** Whether the public name still leads to this process. */
  held(): boolean;
  /** Stops listening and gives the name up, when it is still ours. */
  release(): void;
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
  const ownName = `${name}.${process.pid}.sock`;
  const privatePath = join(folder, ownName);
  const publicPath = publicSocketPath(folder, name);
  unlinkQuietly(privatePath);
  const server = createServer({ allowHalfOpen: true }, onConnection);
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(privatePath, () => resolve());
  });
  chmodSync(privatePath, 0o600);
  const release = () => {
    server.close();
    if (readLink(publicPath) === ownName) unlinkQuietly(publicPath);
    unlinkQuietly(privatePath);
  };
  const claim: Claim = { server, privatePath, held: () => readLink(publicPath) === ownName, release };
  if (takeOver) {
    const temporary = join(folder, `${name}.${process.pid}.link`);
    unlinkQuietly(temporary);
    symlinkSync(ownName, temporary);
    renameSync(temporary, publicPath);
    return claim;
  }
  for (let attempt = 0; attempt < CLAIM_ATTEMPTS; attempt += 1) {
    if (tryLink(ownName, publicPath)) return claim;
    if (await answers(publicPath)) {
      release();
      return undefined;
    }
    await setAsideStaleLink(publicPath);
  }
  release();
  throw new RuntimeError("internal", `The socket name ${publicPath} could not be claimed`, "Try again");
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

/**
 * Moving the link away before judging it again closes the race with a process that has claimed the name meanwhile: if
 * what was moved turns out to be alive, its link is put back.
 */
async function setAsideStaleLink(publicPath: string): Promise<void> {
  const aside = `${publicPath}.stale.${process.pid}`;
  try {
    renameSync(publicPath, aside);
  } catch {
    return;
  }
  const target = readLink(aside);
  if (target !== undefined && (await answers(aside))) tryLink(target, publicPath);
  unlinkQuietly(aside);
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
    const pid = Number(/\.(\d+)\.(?:sock|link)$/.exec(entry)?.[1] ?? /\.sock\.stale\.(\d+)$/.exec(entry)?.[1] ?? 0);
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

import { type ChildProcess, spawn } from "node:child_process";
import { accessSync, constants, statSync } from "node:fs";
import { join } from "node:path";
import type { Readable } from "node:stream";

/** Where programs are when the caller had no PATH; what POSIX systems set by themselves. */
const DEFAULT_PATH = "/usr/bin:/bin:/usr/local/bin";
const MAX_LINE_CHARACTERS = 4096;

/**
 * Ends ssh when this process goes away, however it does: descriptor 3 is a pipe from us, and its end is the signal. `exec`
 * gives ssh the process id of this shell; the guard stays in ssh's process group, so that the id cannot be another
 * process's by the time it is used.
 */
const GUARDED = '{ read -r end; kill -TERM $$; } <&3 >/dev/null 2>&1 & exec "$0" "$@" </dev/null 3<&-';

/** @returns the absolute path of the `ssh` that the caller's shell would run, or undefined where there is none */
export function findSsh(path: string | undefined): string | undefined {
  for (const folder of (path ?? DEFAULT_PATH).split(":")) {
    if (!folder.startsWith("/")) continue;
    const program = join(folder, "ssh");
    try {
      accessSync(program, constants.X_OK);
      if (statSync(program).isFile()) return program;
    } catch {
      // Not in this folder.
    }
  }
  return undefined;
}

/** The `ssh` program as a connection, with whatever it starts for it (ProxyCommand, other `ssh` for ProxyJump). */
export class SshProcess {
  /** Resolves when ssh has ended and everything that it said has been passed on. */
  readonly ended: Promise<void>;
  readonly #child: ChildProcess;
  #over = false;

  /** @param onLine receives each line of its stderr */
  constructor(program: string, args: readonly string[], env: NodeJS.ProcessEnv, onLine: (line: string) => void) {
    this.#child = spawn("/bin/sh", ["-c", GUARDED, program, ...args], {
      cwd: "/",
      env,
      // A group of its own, which can be ended as a whole, and no terminal to ask questions on.
      detached: true,
      stdio: ["ignore", "ignore", "pipe", "pipe"],
    });
    this.ended = new Promise((resolve) => {
      this.#child.once("error", (error) => {
        onLine(error.message);
        resolve();
      });
      this.#child.once("exit", () => {
        this.#killGroup();
        this.#over = true;
        this.#lifeline().destroy();
      });
      this.#child.once("close", () => resolve());
    });
    this.#lifeline().on("error", () => {});
    splitLines(this.#child.stderr!, onLine);
  }

  /** Lets ssh end by itself, with a goodbye to the server. */
  release(): void {
    this.#lifeline().destroy();
  }

  kill(): void {
    if (!this.#over) this.#killGroup();
  }

  #lifeline(): Readable {
    return this.#child.stdio[3] as Readable;
  }

  /** The guard keeps the group alive, and so its id, until it is killed here. */
  #killGroup(): void {
    if (this.#child.pid === undefined) return;
    try {
      process.kill(-this.#child.pid, "SIGKILL");
    } catch {
      // Everything has ended already.
    }
  }
}

function splitLines(stream: Readable, onLine: (line: string) => void): void {
  let pending = "";
  stream.setEncoding("utf8");
  stream.on("data", (chunk: string) => {
    const lines = `${pending}${chunk}`.split(/\r?\n/);
    pending = (lines.pop() ?? "").slice(0, MAX_LINE_CHARACTERS);
    for (const line of lines) onLine(line.slice(0, MAX_LINE_CHARACTERS));
  });
  stream.on("end", () => {
    if (pending !== "") onLine(pending);
  });
  stream.on("error", () => {});
}

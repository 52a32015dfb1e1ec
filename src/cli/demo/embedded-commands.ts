import { type ChildProcess, spawn } from "node:child_process";
import type { ServerChannel } from "ssh2";

/** Runs the commands of SSH sessions, through /bin/sh as the login shell and with pipes. */
export class CommandRunner {
  readonly #home: string;
  readonly #env: NodeJS.ProcessEnv;
  readonly #running = new Set<ChildProcess>();

  /** @param env whole environment of a command */
  constructor(home: string, env: NodeJS.ProcessEnv) {
    this.#home = home;
    this.#env = env;
  }

  run(command: string, channel: ServerChannel): void {
    const child = spawn("/bin/sh", ["-c", command], {
      cwd: this.#home,
      env: this.#env,
      stdio: ["pipe", "pipe", "pipe"],
      // A group of its own, so that stop() reaches what the command has started.
      detached: true,
    });
    this.#running.add(child);
    for (const stream of [channel, channel.stderr, child.stdin, child.stdout, child.stderr]) {
      stream.on("error", () => {});
    }
    channel.pipe(child.stdin);
    child.stdout.pipe(channel, { end: false });
    child.stderr.pipe(channel.stderr, { end: false });
    child.once("error", () => channel.exit(127));
    child.once("close", (code, signal) => {
      this.#running.delete(child);
      if (code !== null) channel.exit(code);
      else if (signal !== null) channel.exit(signal);
      channel.end();
    });
    // As sshd does: the client's end closes the pipes and leaves the process alone.
    channel.once("close", () => {
      for (const stream of [child.stdin, child.stdout, child.stderr]) stream.destroy();
    });
  }

  /** Ends every command that still runs, with its group. */
  stop(): void {
    for (const { pid } of this.#running) {
      try {
        if (pid !== undefined) process.kill(-pid, "SIGKILL");
      } catch {
        // It ended by itself.
      }
    }
  }
}

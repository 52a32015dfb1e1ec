import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { Sshd } from "../support/sshd.ts";

/** What the runtime is compared with in the same run: a bare node, and OpenSSH's client cold and over ControlMaster. */

/** Runs a program to its end and requires that it succeeds. */
export async function run(command: string, args: string[], env: NodeJS.ProcessEnv): Promise<void> {
  const child = spawn(command, args, { env, stdio: ["ignore", "ignore", "inherit"] });
  const [code] = await once(child, "exit");
  if (code !== 0) throw new Error(`${command} ${args.join(" ")} ended with ${code}`);
}

export class SshPeer {
  readonly #arguments: string[];
  readonly #controlPath: string;
  #master: ChildProcess | undefined;

  /** @param port where the server is reached, which may be a proxy's */
  constructor(sshd: Sshd, port: number) {
    this.#controlPath = join(sshd.folder, `master-${port}`);
    const options = {
      IdentityFile: sshd.identityFile,
      IdentitiesOnly: "yes",
      UserKnownHostsFile: sshd.knownHostsFile,
      StrictHostKeyChecking: "no",
      BatchMode: "yes",
      LogLevel: "ERROR",
    };
    this.#arguments = [
      ...["-F", "/dev/null", "-p", String(port)],
      ...Object.entries(options).flatMap(([key, value]) => ["-o", `${key}=${value}`]),
      `${sshd.user}@${sshd.host}`,
    ];
  }

  /** Arguments of `ssh` for a command over a connection of its own. */
  cold(...command: string[]): string[] {
    return [...this.#arguments, ...command];
  }

  /** Arguments of `ssh` for a command over the master's connection. */
  shared(...command: string[]): string[] {
    return ["-o", `ControlPath=${this.#controlPath}`, ...this.#arguments, ...command];
  }

  async startMaster(): Promise<void> {
    const args = ["-o", "ControlMaster=yes", "-o", `ControlPath=${this.#controlPath}`, "-N", ...this.#arguments];
    this.#master = spawn("ssh", args, { stdio: "ignore" });
    for (;;) {
      const check = spawn("ssh", ["-O", "check", ...this.shared()], { stdio: "ignore" });
      const [code] = await once(check, "exit");
      if (code === 0) return;
      if (this.#master.exitCode !== null) throw new Error("the ssh master ended");
    }
  }

  async stopMaster(): Promise<void> {
    const master = this.#master;
    if (master === undefined || master.exitCode !== null) return;
    const exited = once(master, "exit");
    master.kill();
    await exited;
  }
}

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A real ssh-agent of a test's own. */
export interface SshAgent {
  /** For SSH_AUTH_SOCK. */
  socket: string;
  /** Hands a private key without a passphrase to the agent, after those that it has. */
  add(identityFile: string): void;
  /** The same, but the agent lists the key and refuses to sign with it, as when a person declines. */
  addUnwilling(identityFile: string): void;
  /** Ends the agent and removes its folder. */
  stop(): Promise<void>;
}

const START_DEADLINE_MS = 10_000;

export async function startSshAgent(): Promise<SshAgent> {
  const folder = mkdtempSync(join(tmpdir(), "agent-"));
  const socket = join(folder, "socket");
  // What the agent asks before it signs with a key added for confirmation: a program that always declines.
  const askpass = { SSH_ASKPASS: "/bin/false", SSH_ASKPASS_REQUIRE: "force" };
  const child = spawn("ssh-agent", ["-D", "-a", socket], { env: { ...process.env, ...askpass }, stdio: "ignore" });
  const deadline = Date.now() + START_DEADLINE_MS;
  // The agent says nothing once it listens; its socket is all there is to see.
  while (!existsSync(socket)) {
    if (child.exitCode !== null || Date.now() > deadline) throw new Error("ssh-agent did not start");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  const env = { ...process.env, SSH_AUTH_SOCK: socket };
  return {
    socket,
    add: (identityFile) => {
      execFileSync("ssh-add", ["-q", identityFile], { env, stdio: "ignore" });
    },
    addUnwilling: (identityFile) => {
      execFileSync("ssh-add", ["-q", "-c", identityFile], { env, stdio: "ignore" });
    },
    stop: async () => {
      if (child.exitCode === null && child.signalCode === null) {
        const exited = once(child, "exit");
        child.kill("SIGKILL");
        await exited;
      }
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

import { mkdirSync } from "node:fs";
import { sshdAvailable } from "./sshd.ts";

/**
 * Runs once before the tests of project `real`.
 * @throws Error on CI when there is no sshd
 */
export default function setup(): void {
  if (!sshdAvailable()) {
    console.log(
      "No sshd here: the tests in test/real are skipped (Debian and Ubuntu: apt-get install openssh-server).",
    );
    return;
  }
  // sshd as root refuses to start without it; distributions create it at boot, which containers do not have.
  if (process.getuid?.() === 0) mkdirSync("/run/sshd", { recursive: true, mode: 0o755 });
}

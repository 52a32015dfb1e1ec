import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { userInfo } from "node:os";
import { describe } from "vitest";
import { sshdAvailable } from "./sshd.ts";

/** What a machine must have for the tests in test/real; the fast tests need nothing but Node and git. */

/** Whether an OpenSSH server is installed. On CI its absence is an error, thrown when this file is imported. */
export const haveSshd: boolean = sshdAvailable();

/** `describe` for tests that talk to a real server: skipped, and said so by global-setup.ts, where there is none. */
export const describeReal = describe.skipIf(!haveSshd);

/** `describe` for tests that make accounts or mounts, or files of other users: skipped where this account may not. */
export const describePrivileged = describe.skipIf(!haveSshd || !isPrivileged());

/** The same for tests of an account whose login shell is this program. */
export function describeWithShell(shell: string): typeof describePrivileged {
  const found = existsSync(shell);
  if (!found) requireOnCi(shell);
  return describe.skipIf(!haveSshd || !isPrivileged() || !found);
}

/** `describe` for tests that run these programs on the host: skipped where one of them is not installed. */
export function describeWithPrograms(...programs: string[]): typeof describeReal {
  const missing = programs.filter((name) => spawnSync("sh", ["-c", `command -v ${name}`]).status !== 0);
  for (const name of missing) requireOnCi(name);
  return describe.skipIf(!haveSshd || missing.length > 0);
}

function isPrivileged(): boolean {
  const privileged =
    userInfo().uid === 0 &&
    spawnSync("unshare", ["--mount", "true"]).status === 0 &&
    spawnSync("useradd", ["--help"]).status === 0;
  if (!privileged) requireOnCi("the right to make accounts and mounts");
  return privileged;
}

/** @throws Error on CI: there, a test that did not run must not look like one that passed */
function requireOnCi(what: string): void {
  if (process.env.CI === "true") throw new Error(`This machine lacks ${what}, and CI must not go without`);
}

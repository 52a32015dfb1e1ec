import { execFileSync } from "node:child_process";
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { BuildHost } from "./build-host.ts";
import { endProcessesOf } from "./processes.ts";

/** Accounts of this machine that exist for one test. They need a host with the lines of ACCOUNT_HOST in its sshd_config. */

export const ACCOUNT_HOST = { config: ["AuthorizedKeysFile .ssh/authorized_keys"] };

/** What has ended counts as using the account until it is reaped. */
const REMOVE_ATTEMPTS = 100;
const REMOVE_WAIT_MS = 50;

export interface Account {
  name: string;
  home: string;
  /** The runtime's root, at its default place. */
  root: string;
  /** Puts a file into the home folder, as the account's own. */
  write(path: string, text: string, mode?: number): void;
  /** Runtime options that reach this account. */
  options: { user: string; root: undefined };
  /** Ends what it runs and removes the account with its home. Its clients have to be closed before. */
  remove(): Promise<void>;
}

let count = 0;

export function addAccount(
  host: BuildHost,
  { shell, homeName }: { shell: string; homeName?: string | undefined },
): Account {
  count += 1;
  const name = `psr${process.pid.toString(36)}x${count}`;
  const base = mkdtempSync(join(tmpdir(), "psr-home-"));
  chmodSync(base, 0o755);
  const home = join(base, homeName ?? name);
  const root = join(home, ".paseo-ssh-runtime");
  const skeleton = join(base, "skeleton");
  mkdirSync(skeleton);
  // "*": no password fits, and the account is not locked, which would close it for keys as well.
  const settings = ["--create-home", "--skel", skeleton, "--home-dir", home, "--shell", shell, "--password", "*"];
  execFileSync("useradd", [...settings, "--no-log-init", name], { stdio: ["ignore", "ignore", "pipe"] });
  const [uid, gid] = ["-u", "-g"].map((flag) => Number(execFileSync("id", [flag, name], { encoding: "utf8" })));

  const write = (path: string, text: string, mode = 0o644) => {
    const file = join(home, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
    chmodSync(file, mode);
    for (let place = file; place !== home; place = dirname(place)) chownSync(place, uid!, gid!);
  };
  write(".ssh/authorized_keys", host.publicKey);

  const remove = async () => {
    await endProcessesOf(uid!);
    await deleteAccount(name);
    rmSync(base, { recursive: true, force: true });
    // Where an agent's own folder is too deep for a socket, it makes this one.
    rmSync(join(tmpdir(), `paseo-ssh-agent-${uid}`), { recursive: true, force: true });
  };
  return { name, home, root, write, options: { user: name, root: undefined }, remove };
}

async function deleteAccount(name: string): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      execFileSync("userdel", ["--remove", name], { stdio: ["ignore", "ignore", "pipe"] });
      return;
    } catch (error) {
      if (attempt === REMOVE_ATTEMPTS) throw error;
      await delay(REMOVE_WAIT_MS);
    }
  }
}

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

/** A real keyring of a test's own: a message bus, and gnome-keyring on it with an unlocked default collection. */
export interface Keyring {
  /** What a program of that session has in its environment. */
  env: { DBUS_SESSION_BUS_ADDRESS: string; XDG_RUNTIME_DIR: string; HOME: string };
  /** As for somebody who has not typed the password of the session: the entries cannot be read any more. */
  lock(): void;
  stop(): Promise<void>;
}

const START_DEADLINE_MS = 15_000;
const LOOK_MS = 20;

/** Without the distribution's services: the bus would start a second, locked keyring while ours starts. */
const BUS_CONFIG = (folder: string) => `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:path=${folder}/bus</listen>
  <policy context="default"><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/></policy>
</busconfig>
`;

export async function startKeyring(): Promise<Keyring> {
  const folder = mkdtempSync(join(tmpdir(), "keyring-"));
  const runtime = join(folder, "run");
  mkdirSync(runtime, { mode: 0o700 });
  const config = join(folder, "bus.conf");
  writeFileSync(config, BUS_CONFIG(folder));
  const env = { DBUS_SESSION_BUS_ADDRESS: `unix:path=${folder}/bus`, XDG_RUNTIME_DIR: runtime, HOME: folder };
  const all = { ...process.env, ...env };
  const children: ChildProcess[] = [];
  const stop = async () => {
    for (const child of children.reverse()) await end(child);
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    const bus = spawn("dbus-daemon", [`--config-file=${config}`, "--nofork", "--print-address=1"], {
      env: all,
      stdio: ["ignore", "pipe", "ignore"],
    });
    children.push(bus);
    await once(bus.stdout, "data");
    const daemon = spawn("gnome-keyring-daemon", ["--foreground", "--unlock", "--components=secrets"], {
      env: all,
      stdio: ["pipe", "ignore", "ignore"],
    });
    children.push(daemon);
    daemon.stdin.end("keyring password");
    await whenOnBus(all);
  } catch (error) {
    await stop();
    throw error;
  }
  const lock = () => {
    const path = "/org/freedesktop/secrets/collection/login";
    const call = ["--print-reply", "--dest=org.freedesktop.secrets", "/org/freedesktop/secrets"];
    const result = spawnSync("dbus-send", [...call, "org.freedesktop.Secret.Service.Lock", `array:objpath:${path}`], {
      env: all,
      encoding: "utf8",
    });
    if (result.status !== 0 || !result.stdout.includes(path)) throw new Error(`not locked: ${result.stderr}`);
  };
  return { env, lock, stop };
}

/** The daemon says nothing once it serves; its name on the bus is all there is to see. */
async function whenOnBus(env: NodeJS.ProcessEnv): Promise<void> {
  const call = ["--print-reply", "--dest=org.freedesktop.DBus", "/", "org.freedesktop.DBus.NameHasOwner"];
  const deadline = Date.now() + START_DEADLINE_MS;
  while (Date.now() < deadline) {
    const { stdout } = spawnSync("dbus-send", [...call, "string:org.freedesktop.secrets"], { env, encoding: "utf8" });
    if (stdout.includes("boolean true")) return;
    await delay(LOOK_MS);
  }
  throw new Error("gnome-keyring-daemon did not start");
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, "exit");
  child.kill("SIGKILL");
  await exited;
}

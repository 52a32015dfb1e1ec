import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { endAgents, isRunning, processesWith, untilGone } from "../support/processes.ts";
import { describeReal } from "../support/requirements.ts";
import { RuntimeClient } from "../support/runtime.ts";
import { type Sshd, startSshd } from "../support/sshd.ts";

const ENV = { PATH: "/usr/local/bin:/usr/bin:/bin" };

describeReal("process trees", () => {
  let sshd: Sshd;
  let root: string;
  let source: string;
  let client: RuntimeClient;

  beforeAll(async () => {
    sshd = await startSshd();
    root = mkdtempSync(join(tmpdir(), "psr-trees-"));
    source = mkdtempSync(join(tmpdir(), "psr-source-"));
    client = new RuntimeClient(sshd.options({ root, helper: false }));
    await client.create("trees", { kind: "directory", path: source });
  });

  afterAll(async () => {
    await client.close();
    await endAgents(root);
    await sshd.stop();
    for (const folder of [root, source]) rmSync(folder, { recursive: true, force: true });
  });

  it("signal KILL ends children in the group, in another group, and in another session below it", async () => {
    const script = "sleep 601 & setsid sleep 602 & set -m; sleep 603 & echo $! up; wait";
    const exec = client.exec("trees", { argv: ["bash", "-c", script], env: ENV });
    await exec.outputContains("up");
    const members = ["sleep 601", "sleep 602", "sleep 603"].flatMap(processesWith).filter(isSleep);
    expect(members).toHaveLength(3);
    expect(await client.signal("trees", exec.execId, "SIGKILL")).toMatchObject({ code: 0, stderr: "" });
    expect(members.filter(isRunning)).toEqual([]);
    expect(await exec.result()).toMatchObject({ signal: "SIGKILL" });
  });

  it("destroy ends a daemon that has left session and ancestry, where there are control groups", async () => {
    const folder = mkdtempSync(join(tmpdir(), "psr-daemon-"));
    const script = join(import.meta.dirname, "../fixtures/daemonize.sh");
    await client.create("daemons", { kind: "directory", path: source });
    const { stdout, code } = await client.execute("daemons", [script, join(folder, "pid")], { env: ENV });
    const pid = Number(stdout.toString());
    expect(code).toBe(0);
    expect(isRunning(pid)).toBe(true);
    await client.destroy("daemons");
    if (hasControlGroups()) await untilGone(pid);
    else process.kill(pid, "SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  });

  it("signal KILL ends the daemon of one execution, and leaves those of others alone", async () => {
    const folder = mkdtempSync(join(tmpdir(), "psr-daemons-"));
    const script = join(import.meta.dirname, "../fixtures/daemonize.sh");
    const start = async (name: string) => {
      const argv = ["sh", "-c", '"$1" "$2"; exec sleep 605', "sh", script, join(folder, name)];
      const exec = client.exec("trees", { argv, env: ENV });
      await exec.outputContains("\n");
      return { exec, daemon: Number(exec.output) };
    };
    const ended = { exec: client.exec("trees", { argv: [script, join(folder, "a")], env: ENV }), daemon: 0 };
    ended.daemon = Number((await ended.exec.result()).stdout.toString());
    const [first, second] = [await start("b"), await start("c")];
    expect(await client.signal("trees", first.exec.execId, "SIGKILL")).toMatchObject({ code: 0, stderr: "" });
    if (hasControlGroups()) expect(isRunning(first.daemon)).toBe(false);
    else process.kill(first.daemon, "SIGKILL");
    expect([ended.daemon, second.daemon].map(isRunning)).toEqual([true, true]);
    await client.signal("trees", second.exec.execId, "SIGKILL");
    process.kill(ended.daemon, "SIGKILL");
    if (!hasControlGroups()) process.kill(second.daemon, "SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  });

  it("a background process survives its execution until the workspace is paused", async () => {
    const { stdout } = await client.execute("trees", ["sh", "-c", "sleep 604 >/dev/null 2>&1 & echo $!"], { env: ENV });
    const pid = Number(stdout.toString());
    expect(isRunning(pid)).toBe(true);
    await client.ok(["pause", "--workspace-id", "trees"]);
    await untilGone(pid);
    await client.ok(["resume", "--workspace-id", "trees"]);
  });
});

/** Only root and delegated accounts have them; elsewhere a daemon stays, as the documentation says. */
function hasControlGroups(): boolean {
  return existsSync("/sys/fs/cgroup") && process.getuid?.() === 0;
}

/** The shell that starts the sleeps has their arguments in its command line, too. */
function isSleep(pid: number): boolean {
  return readFileSync(`/proc/${pid}/comm`, "latin1") === "sleep\n";
}

import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { endAgents } from "../support/processes.ts";
import { describeReal } from "../support/requirements.ts";
import { LAUNCHER, RuntimeClient } from "../support/runtime.ts";
import { type Sshd, startSshd } from "../support/sshd.ts";

const ENV = { PATH: "/usr/local/bin:/usr/bin:/bin" };

/** A copy of the built package whose agent has another build name: what an upgrade brings. */
function otherBuild(folder: string): string {
  const packageFolder = resolve(dirname(LAUNCHER), "..");
  mkdirSync(folder, { recursive: true });
  cpSync(join(packageFolder, "bin"), join(folder, "bin"), { recursive: true });
  cpSync(join(packageFolder, "dist"), join(folder, "dist"), { recursive: true });
  symlinkSync(join(packageFolder, "node_modules"), join(folder, "node_modules"));
  const manifest = join(folder, "dist/agent/manifest.json");
  writeFileSync(manifest, JSON.stringify({ ...JSON.parse(readFileSync(manifest, "utf8")), build: "feedfacefeedface" }));
  return join(folder, "bin/paseo-ssh-runtime.cjs");
}

/** What the agent that holds the name has written beside its socket. */
function runningAgent(root: string): { pid: number; build: string } {
  const run = join(root, "run");
  const name = readdirSync(run).find((entry) => entry.endsWith(".json"));
  return JSON.parse(readFileSync(join(run, name!), "utf8"));
}

describeReal("an agent of another build takes over", () => {
  let sshd: Sshd;
  let folder: string;
  let root: string;
  let older: RuntimeClient;
  let newer: RuntimeClient;

  beforeAll(async () => {
    sshd = await startSshd();
    folder = mkdtempSync(join(tmpdir(), "psr-takeover-"));
    root = join(folder, "root");
    const source = join(folder, "source");
    mkdirSync(source);
    older = new RuntimeClient(sshd.options({ root, helper: false }));
    newer = new RuntimeClient(older.options, {
      runtimeInstanceId: older.runtimeInstanceId,
      launcher: otherBuild(join(folder, "package")),
    });
    await older.create("w", { kind: "directory", path: source });
  });

  afterAll(async () => {
    await older.close();
    await newer.close();
    await endAgents(root);
    await sshd.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  it("new work goes to the new agent; the old one finishes, is found by signal and by a resuming wrapper", async () => {
    const resumed = older.exec("w", { argv: ["sh", "-c", "echo begun; cat; echo over"], env: ENV });
    const signalled = older.exec("w", { argv: ["sleep", "600"], env: ENV });
    await Promise.all([resumed.outputContains("begun"), signalled.started()]);
    const first = runningAgent(root);

    expect(await newer.inspect("w")).toMatchObject({ status: "ready" });
    const second = runningAgent(root);
    expect(second.build).toBe("feedfacefeedface");
    expect(second.pid).not.toBe(first.pid);
    expect((await newer.execute("w", ["echo", "new"], { env: ENV })).stdout.toString()).toBe("new\n");

    expect(await newer.signal("w", signalled.execId, "SIGKILL")).toMatchObject({ code: 0, stderr: "" });
    expect(await signalled.result()).toMatchObject({ code: null, signal: "SIGKILL" });

    sshd.killSessions();
    resumed.stdin.end("after the cut\n");
    expect(await resumed.result()).toMatchObject({ code: 0, stdout: Buffer.from("begun\nafter the cut\nover\n") });
  });
});

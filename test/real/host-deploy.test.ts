import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir, userInfo } from "node:os";
import { dirname, join, resolve } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { BuildHost, namesIn } from "../support/build-host.ts";
import { installCopy } from "../support/installation.ts";
import { describeReal } from "../support/requirements.ts";
import { LAUNCHER, type RuntimeClient } from "../support/runtime.ts";

const DIST = resolve(dirname(LAUNCHER), "../dist");

interface Manifest {
  build: string;
  files: { path: string; sha256: string; platform?: string }[];
}

describeReal("the agent on the host", () => {
  let host: BuildHost;
  let manifest: Manifest;
  beforeAll(async () => {
    host = await BuildHost.start();
    manifest = JSON.parse(readFileSync(join(DIST, "agent", "manifest.json"), "utf8"));
  });
  afterAll(() => host?.stop());

  const mode = (path: string) => (statSync(path).mode & 0o777).toString(8);
  /** The folder of this build for hosts of this kind. */
  const own = () => `${manifest.build}-${process.platform}-${process.arch}`;
  const deployed = (root: string) => join(root, "agent", own());
  const status = async (client: RuntimeClient) => JSON.parse((await client.run(["status", "--json"])).stdout).hosts[0];

  function newRoot(): string {
    return host.path(host.newName("root"));
  }

  function isWhole(folder: string): boolean {
    return manifest.files
      .filter(({ platform }) => platform === undefined || platform === `${process.platform}-${process.arch}`)
      .every(({ path, sha256 }) => {
        const content = readFileSync(join(folder, path.split("/").at(-1)!));
        return createHash("sha256").update(content).digest("hex") === sha256;
      });
  }

  it("is put there by its content, for nobody else to see", async () => {
    const root = newRoot();
    const client = host.client({ root });
    await client.inspect("w");
    expect(namesIn(join(root, "agent"))).toEqual([own()]);
    expect(isWhole(deployed(root))).toBe(true);
    expect((await status(client)).agent).toMatchObject({ build: manifest.build, pid: host.agentPids(root)[0] });
    for (const folder of [root, deployed(root), join(root, "run"), join(root, "workspaces"), join(root, "logs")]) {
      expect(`${folder} ${mode(folder)}`).toBe(`${folder} 700`);
    }
    const sockets = namesIn(join(root, "run")).filter((name) => name.endsWith(".sock"));
    expect(sockets).toHaveLength(2);
    for (const name of sockets) expect(mode(join(root, "run", name))).toBe("600");
  });

  it("is put there again when it is damaged, and the damaged one is moved aside", async () => {
    const root = newRoot();
    await host.client({ root }).inspect("w");
    const bundle = join(deployed(root), "agent.cjs");
    const damaged = readFileSync(bundle);
    damaged[damaged.length >> 1]! ^= 1;
    writeFileSync(bundle, damaged);

    // The one that runs goes on, whatever lies in its folder.
    const [pid] = host.agentPids(root);
    await host.client({ root }).inspect("w");
    expect(host.agentPids(root)).toEqual([pid]);
    expect(isWhole(deployed(root))).toBe(true);

    rmSync(join(deployed(root), "pty.node"));
    await host.killAgents(root);
    const client = host.client({ root });
    await client.inspect("w");
    expect(isWhole(deployed(root))).toBe(true);
    const aside = namesIn(join(root, "agent")).filter((name) => name !== own());
    expect(aside).toEqual([
      expect.stringMatching(`^${own()}\\.damaged-`),
      expect.stringMatching(`^${own()}\\.damaged-`),
    ]);
    const kept = aside.map((name) => readFileSync(join(root, "agent", name, "agent.cjs")));
    expect(kept.some((content) => content.equals(damaged))).toBe(true);
    mkdirSync(host.path("empty"), { recursive: true });
    await client.create("w", { kind: "directory", path: host.path("empty") });
    const terminal = client.exec("w", { argv: ["true"], stdio: { kind: "pty", rows: 2, cols: 2 } });
    expect((await terminal.result()).code).toBe(0);
  });

  it("is one, and whole, when several brokers put it there at once", async () => {
    const root = newRoot();
    const clients = Array.from({ length: 4 }, () => host.client({ root }));
    expect(await Promise.all(clients.map((client) => client.inspect("w")))).toEqual(
      Array(4).fill({ status: "missing" }),
    );
    const agents = host.agentPids(root);
    expect(agents).toHaveLength(1);
    expect(namesIn(join(root, "agent"))).toEqual([own()]);
    expect(isWhole(deployed(root))).toBe(true);
    for (const client of clients) expect((await status(client)).agent.pid).toBe(agents[0]);
  });

  it("has its socket elsewhere when the root's path is too long for one", async () => {
    const root = host.path("r".repeat(60), "o".repeat(60), "t".repeat(60));
    const client = host.client({ root });
    mkdirSync(host.path("empty"), { recursive: true });
    await client.create("w", { kind: "directory", path: host.path("empty") });
    expect((await client.execute("w", ["pwd"])).stdout.toString("utf8").startsWith(`${root}/workspaces/`)).toBe(true);

    const folder = join(tmpdir(), `paseo-ssh-agent-${userInfo().uid}`);
    const [pid] = host.agentPids(root);
    const socket = namesIn(folder).find((name) => name.endsWith(`.${pid}.sock`))!;
    expect([mode(folder), mode(join(folder, socket))]).toEqual(["700", "600"]);

    // Another root has another agent, although both have their sockets in one folder.
    const other = host.client({ root: `${root}-2` });
    expect(await other.inspect("w")).toEqual({ status: "missing" });
    expect(host.agentPids(`${root}-2`)).not.toEqual([pid]);

    const pids = [pid, ...host.agentPids(`${root}-2`)];
    const names = pids.map(
      (agent) =>
        namesIn(folder)
          .find((name) => name.endsWith(`.${agent}.sock`))!
          .split(".")[0]!,
    );
    await Promise.all([client.close(), other.close()]);
    for (const place of [root, `${root}-2`]) await host.killAgents(place);
    for (const name of namesIn(folder)) {
      if (names.includes(name.split(".")[0]!)) rmSync(join(folder, name));
    }
  });

  it("gives way to one of another build, and what it runs goes on", async () => {
    const root = newRoot();
    const old = host.client({ root });
    mkdirSync(host.path("empty"), { recursive: true });
    await old.create("w", { kind: "directory", path: host.path("empty") });
    const exec = old.exec("w", { argv: ["sh", "-c", "echo started; read line; echo $line"] });
    await exec.outputContains("started");
    const [oldPid] = host.agentPids(root);

    const launcher = otherBuild();
    const next = host.client({ root }, { launcher, runtimeInstanceId: old.runtimeInstanceId });
    expect((await next.inspect("w")).status).toBe("ready");
    expect(host.agentPids(root)).toHaveLength(2);
    expect((await status(next)).agent.build).not.toBe(manifest.build);

    exec.stdin.end("done\n");
    expect((await exec.result()).stdout.toString("utf8")).toBe("started\ndone\n");
    await old.close();
    await expect.poll(() => host.agentPids(root), { timeout: 10_000 }).not.toContain(oldPid);
    expect((await next.execute("w", ["echo", "new"])).stdout.toString("utf8")).toBe("new\n");
  });

  /** This build with other bytes in its agent, as the next release would have. */
  function otherBuild(): string {
    const { launcher, dist } = installCopy(host.path("other-build"));
    const bundle = join(dist, "agent", "agent.cjs");
    const content = Buffer.concat([readFileSync(bundle), Buffer.from("\n// another build\n")]);
    const build = manifest.build.replace(/^./, (digit) => (digit === "0" ? "1" : "0"));
    writeFileSync(bundle, content);
    const files = manifest.files.map((file) =>
      file.path.endsWith("agent.cjs")
        ? { ...file, size: content.length, sha256: createHash("sha256").update(content).digest("hex") }
        : file,
    );
    writeFileSync(join(dist, "agent", "manifest.json"), JSON.stringify({ ...manifest, build, files }));
    return launcher;
  }
});

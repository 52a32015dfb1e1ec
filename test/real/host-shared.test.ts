import { createHash } from "node:crypto";
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { BuildHost, namesIn, outputOf } from "../support/build-host.ts";
import { installCopy } from "../support/installation.ts";
import { describePrivileged } from "../support/requirements.ts";
import type { RuntimeClient } from "../support/runtime.ts";

/** One home folder that several machines mount: another host name in one case, another architecture in the other. */
describePrivileged("a home that hosts share", () => {
  let first: BuildHost;
  let second: BuildHost;
  let here: RuntimeClient;
  let there: RuntimeClient;

  beforeAll(async () => {
    first = await BuildHost.start();
    const rename = `echo psr-second > /proc/sys/kernel/hostname && exec /bin/sh`;
    second = await BuildHost.start({ config: [`ForceCommand unshare --uts /bin/sh -c "${rename}"`] });
    here = first.client();
    there = second.client({ root: first.root }, { runtimeInstanceId: here.runtimeInstanceId });
  });
  afterAll(async () => {
    await second?.stop();
    await first?.stop();
  });

  const terminal = { kind: "pty", rows: 2, cols: 2 };
  const liveRecords = () => {
    const folder = join(first.workspaceFolder("w"), "executions", "live");
    return readdirSync(folder).map((name) => JSON.parse(readFileSync(join(folder, name), "utf8")));
  };

  it("has an agent for each, and neither touches what the other runs", async () => {
    await here.create("w", { kind: "directory", path: first.emptyFolder() });
    const running = here.exec("w", { argv: ["sh", "-c", "echo started; read line; echo $line"] });
    await running.outputContains("started");
    const [pid] = first.agentPids();

    expect((await there.inspect("w")).status).toBe("ready");
    expect(first.agentPids()).toHaveLength(2);
    expect(first.agentPids()).toContain(pid);
    expect(namesIn(join(first.root, "agent"))).toHaveLength(1);
    expect(liveRecords()).toMatchObject([{ agentPid: pid }]);
    expect(await outputOf(there, "w", ["uname", "-n"])).toBe("psr-second");
    expect(await outputOf(here, "w", ["uname", "-n"])).not.toBe("psr-second");

    // Nor does the next agent there, when that one has ended in the middle of something.
    const lost = there.exec("w", { argv: ["sh", "-c", "echo started; exec sleep 300"] });
    await lost.outputContains("started");
    const [killed] = first.agentPids().filter((agent) => agent !== pid);
    process.kill(killed!, "SIGKILL");
    expect((await lost.result()).stderr.toString("utf8")).toMatch(/\[execution-lost\]\n$/);
    expect(liveRecords()).toMatchObject([{ agentPid: pid }]);

    running.stdin.end("done\n");
    expect((await running.result()).stdout.toString("utf8")).toBe("started\ndone\n");
    expect(liveRecords()).toEqual([]);
  });

  it("has the files of the agent once for each architecture", async () => {
    const root = first.path(first.newName("root"));
    const client = first.client({ root });
    await client.create("w", { kind: "directory", path: first.emptyFolder() });
    const [own] = namesIn(join(root, "agent"));

    const { launcher, node } = otherArchitecture();
    const other = first.client({ root, node }, { launcher, runtimeInstanceId: client.runtimeInstanceId });
    expect((await other.inspect("w")).status).toBe("ready");
    const folders = namesIn(join(root, "agent"));
    expect(folders).toEqual([own, own!.replace(`-${process.arch}`, "-riscv64")].sort());
    expect(readFileSync(join(root, "agent", folders.find((name) => name !== own)!, "pty.node"), "utf8")).toBe("riscv");

    // And each finds its own whole, so nothing is sent or moved aside.
    await first.killAgents(root);
    const again = client.exec("w", { argv: ["true"], stdio: terminal });
    expect((await again.result()).code).toBe(0);
    await first.killAgents(root);
    expect((await other.inspect("w")).status).toBe("ready");
    expect(namesIn(join(root, "agent"))).toEqual(folders);
  });

  /** An installation that has a terminal module for an architecture, and a node that believes to run on it. */
  function otherArchitecture(): { launcher: string; node: string } {
    const { launcher, dist } = installCopy(first.path("other"));
    const manifestFile = join(dist, "agent", "manifest.json");
    const manifest = JSON.parse(readFileSync(manifestFile, "utf8"));
    const path = "pty/linux-riscv64/pty.node";
    const module = join(dist, "agent", path);
    mkdirSync(dirname(module));
    writeFileSync(module, "riscv");
    const sha256 = createHash("sha256").update("riscv").digest("hex");
    manifest.files.push({ path, sha256, size: 5, mode: 0o644, platform: "linux-riscv64" });
    writeFileSync(manifestFile, JSON.stringify(manifest));
    const preload = first.path("riscv64.cjs");
    writeFileSync(preload, 'Object.defineProperty(process, "arch", { value: "riscv64" });\n');
    const node = first.path("node-riscv64");
    writeFileSync(node, `#!/bin/sh\nexec "${process.execPath}" --require "${preload}" "$@"\n`);
    chmodSync(node, 0o755);
    return { launcher, node };
  }
});

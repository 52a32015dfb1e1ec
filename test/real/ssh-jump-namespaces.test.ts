import { mkdirSync, mkdtempSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { connect, resolve } from "../ssh/support.ts";
import { outputOf } from "../support/build-host.ts";
import { JumpHosts } from "../support/jump-hosts.ts";
import { NamespaceChain } from "../support/network-namespaces.ts";
import { endAgents } from "../support/processes.ts";
import { describeReal } from "../support/requirements.ts";
import { RuntimeClient } from "../support/runtime.ts";

/** Why `ip` makes no namespaces: it is not installed (macOS), or this is a container without that right. */
const NOT_HERE = /ENOENT|Operation not permitted|Permission denied|Read-only file system/;
const ALIASES = ["outer", "middle", "inner"];

describeReal("a host that only the last of two jump hosts reaches", () => {
  const folder = mkdtempSync(join(tmpdir(), "psr-jump-"));
  const root = join(folder, "root");
  let chain: NamespaceChain | undefined;
  let refusal = "";
  let hosts: JumpHosts;

  beforeAll(async () => {
    try {
      chain = new NamespaceChain(ALIASES.length);
    } catch (error) {
      refusal = String(error);
    }
    const config = ["LogLevel DEBUG1"];
    hosts = await JumpHosts.start(
      Object.fromEntries(
        ALIASES.map((alias, index) => [
          alias,
          chain === undefined ? { config } : { config, port: 22, within: chain.namespaces[index]! },
        ]),
      ),
    );
  });

  afterAll(async () => {
    await endAgents(root);
    await hosts?.stop();
    chain?.remove();
    rmSync(folder, { recursive: true, force: true });
  });

  it("is in a network of its own, or this machine makes none", async () => {
    if (chain === undefined) {
      expect(refusal).toMatch(NOT_HERE);
      return;
    }
    for (const [alias, proxyJump] of [
      ["middle", "none"],
      ["inner", "none"],
      ["inner", "outer"],
    ] as const) {
      const target = await resolve({
        host: alias,
        proxyJump,
        sshConfigFile: hosts.config({}),
        connectTimeoutMs: 700,
      });
      await expect(connect(target), `${alias} over ${proxyJump}`).rejects.toMatchObject({
        code: expect.stringMatching(/^connection-(?:failed|timeout|refused)$/),
      });
    }
  });

  it("runs the whole job", async () => {
    const options = { host: "inner", proxyJump: "outer,middle", sshConfigFile: hosts.config({}), root, helper: false };
    const client = new RuntimeClient(options);
    try {
      mkdirSync(join(folder, "source"));
      await client.create("far", { kind: "directory", path: join(folder, "source") });
      expect(await outputOf(client, "far", ["sh", "-c", "echo $((6 * 7))"])).toBe("42");
      if (chain !== undefined) {
        const here = readlinkSync("/proc/self/ns/net");
        const there = await outputOf(client, "far", ["readlink", "/proc/self/ns/net"]);
        expect(there).toMatch(/^net:\[\d+\]$/);
        expect(there).not.toBe(here);
      }
      await client.destroy("far");
    } finally {
      await client.close();
    }
  });

  it("was reached by the hops themselves", () => {
    const opened = (alias: string, to: string) => {
      const { host, port } = hosts.get(to);
      return hosts.get(alias).log().includes(`target ${host} port ${port}`);
    };
    expect(opened("outer", "middle")).toBe(true);
    expect(opened("middle", "inner")).toBe(true);
    expect(opened("inner", "middle")).toBe(false);
  });
});

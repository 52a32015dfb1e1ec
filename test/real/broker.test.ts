import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { BuildHost, brokerPids, failureCode, namesIn } from "../support/build-host.ts";
import { isRunning, processesWith, processStat, untilGone } from "../support/processes.ts";
import { describePrivileged, describeReal } from "../support/requirements.ts";
import type { RuntimeClient } from "../support/runtime.ts";

let host: BuildHost;

/** The installation that owns the workspace, with a broker of its own that does not run yet. */
function coldClient(extra: Record<string, unknown> = {}, brokerFolder?: string): RuntimeClient {
  return host.client(extra, { runtimeInstanceId: "one", ...(brokerFolder === undefined ? {} : { brokerFolder }) });
}

async function status(client: RuntimeClient) {
  const { stdout, code } = await client.run(["status", "--json"]);
  expect(code).toBe(0);
  return JSON.parse(stdout);
}

function sockets(client: RuntimeClient): string[] {
  return namesIn(client.brokerFolder).filter((name) => name.endsWith(".sock"));
}

describeReal("the broker", () => {
  beforeAll(async () => {
    host = await BuildHost.start();
    mkdirSync(host.path("empty"));
    await coldClient().create("w", { kind: "directory", path: host.path("empty") });
  });
  afterAll(() => host?.stop());

  it("is started on demand, in a session of its own, and survives the process group that started it", async () => {
    const client = coldClient();
    expect(await status(client)).toEqual({ broker: null, hosts: [] });
    const exec = client.exec("w", { argv: ["sleep", "1000"] });
    await exec.started();
    const [pid] = brokerPids(client);
    expect(processStat(pid!)).toMatchObject({ session: pid });
    expect(processStat(exec.child.pid!)).not.toMatchObject({ session: pid });
    process.kill(-exec.child.pid!, "SIGKILL");
    await exec.result();
    expect(await status(client)).toEqual({
      broker: { pid },
      hosts: [
        {
          host: host.sshd.host,
          state: "connected",
          channels: expect.any(Number),
          spares: expect.any(Number),
          connectedForMs: expect.any(Number),
          carrier: "ssh2",
          roundTripMs: expect.any(Number),
          workspaces: 1,
          executions: expect.any(Number),
          agent: {
            pid: host.agentPids()[0],
            build: expect.stringMatching(/^[0-9a-f]{16}$/),
            node: process.version,
            platform: `${process.platform}-${process.arch}`,
          },
        },
      ],
    });
  });

  it("tells a person what it is connected to", async () => {
    const client = coldClient();
    expect((await client.run(["status"])).stdout).toBe("No broker is running; the next operation starts one.\n");
    await client.inspect("w");
    const lines = (await client.run(["status"])).stdout.split("\n");
    expect(lines[0]).toBe(`Broker: process ${brokerPids(client)[0]}`);
    expect(lines[1]).toMatch(
      /^127\.0\.0\.1: connected for \d+ s, over ssh2, round trip \d+ ms, \d+ channels in use, \d+ spare, \d+ executions in 1 workspaces, agent /,
    );
    expect((await client.run(["broker", "stop"])).stdout).toMatch(/^Stopped broker \d+\.\n$/);
    expect((await client.run(["broker", "stop"])).stdout).toBe("No broker was running.\n");
  });

  it("is one, with one connection, for forty wrappers at once on a cold machine and a cold host", async () => {
    await host.killAgents();
    const client = coldClient();
    const logins = host.logins();
    const results = await Promise.all(Array.from({ length: 40 }, () => client.inspect("w")));
    expect(results.map((inspection) => inspection.status)).toEqual(Array(40).fill("ready"));
    expect(host.agentPids()).toHaveLength(1);
    expect(host.logins() - logins).toBe(1);
    expect(brokerPids(client)).toHaveLength(1);
    await expect.poll(() => processesWith(`broker.cjs ${client.brokerFolder} `)).toEqual(brokerPids(client));
    expect(sockets(client)).toHaveLength(2);
  });

  it("serves fifty wrappers at once over one connection to a server with stock limits", async () => {
    const client = coldClient();
    const logins = host.logins();
    const runs = Array.from({ length: 50 }, (_, index) => client.execute("w", ["sh", "-c", `echo ${index}`]));
    const results = await Promise.all(runs);
    expect(results.map((result) => [result.code, result.stdout.toString("utf8")])).toEqual(
      results.map((_, index) => [0, `${index}\n`]),
    );
    expect(host.logins() - logins).toBe(1);
  });

  it("is replaced when it was killed, whatever it left in its folder", async () => {
    const client = coldClient();
    await client.inspect("w");
    const [first] = brokerPids(client);
    process.kill(first!, "SIGKILL");
    await untilGone(first!);
    expect(sockets(client)).toHaveLength(2);

    const results = await Promise.all(Array.from({ length: 3 }, () => client.inspect("w")));
    expect(results.map((inspection) => inspection.status)).toEqual(Array(3).fill("ready"));
    await expect.poll(() => brokerPids(client)).toHaveLength(1);
    const [second] = brokerPids(client);
    expect(second).not.toBe(first);
    // The one that was killed may still be seen in the process table, and its socket is then left alone.
    const others = () => sockets(client).filter((name) => !name.includes(`.${first}.`));
    await expect.poll(others).toHaveLength(2);
  });

  it("ends when it was idle for a while, and leaves no socket", async () => {
    const client = coldClient({ brokerIdleMs: 300 });
    await client.inspect("w");
    const [pid] = brokerPids(client);
    await untilGone(pid!);
    expect(sockets(client)).toEqual([]);
    expect(await status(client)).toEqual({ broker: null, hosts: [] });
    expect((await client.inspect("w")).status).toBe("ready");
  });

  it("does not count as idle while something runs", async () => {
    const client = coldClient({ brokerIdleMs: 100 });
    const exec = client.exec("w", { argv: ["sh", "-c", "echo started; sleep 1; echo done"] });
    await exec.outputContains("started");
    const [pid] = brokerPids(client);
    await exec.outputContains("done");
    expect(isRunning(pid!)).toBe(true);
    expect((await exec.result()).code).toBe(0);
    await untilGone(pid!);
  });

  describe("its folder", () => {
    /** A folder with a server in it that would like to be taken for a broker. */
    async function impostor(name: string): Promise<{ folder: string; calls: () => number; stop: () => void }> {
      const genuine = coldClient();
      await genuine.inspect("w");
      const socketName = sockets(genuine).find((entry) => !/\.\d+\.sock$/.test(entry))!;
      const folder = mkdtempSync(join(tmpdir(), `psr-${name}-`));
      let calls = 0;
      const server = createServer((socket) => {
        calls += 1;
        socket.destroy();
      });
      await new Promise<void>((resolve) => server.listen(join(folder, socketName), resolve));
      const stop = () => {
        server.close();
        rmSync(folder, { recursive: true });
      };
      return { folder, calls: () => calls, stop };
    }

    async function refuses(folder: string): Promise<void> {
      const client = coldClient({}, folder);
      expect(failureCode(await client.operation(["inspect", "--workspace-id", "w"]))).toBe("runtime-folder-unsafe");
      expect(failureCode(await client.run(["status", "--json"]))).toBe("runtime-folder-unsafe");
      const exec = await client.execute("w", ["true"]);
      expect(exec.events).toMatchObject([{ type: "error" }]);
      expect(brokerPids(client)).toEqual([]);
    }

    it("is refused when others may look into it, and nobody in it is spoken to", async () => {
      const fake = await impostor("open");
      chmodSync(fake.folder, 0o755);
      await refuses(fake.folder);
      expect(fake.calls()).toBe(0);
      fake.stop();
    });

    it("is refused when it is not a folder of its own", async () => {
      const folder = host.path("elsewhere");
      mkdirSync(folder, { mode: 0o755 });
      await refuses(folder);
    });

    describePrivileged("of somebody else", () => {
      it("is refused, and nobody in it is spoken to", async () => {
        const fake = await impostor("foreign");
        chownSync(fake.folder, 65534, 65534);
        await refuses(fake.folder);
        expect(fake.calls()).toBe(0);
        fake.stop();
      });
    });
  });
});

import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { BuildHost, brokerPids } from "../support/build-host.ts";
import { processesWith, processStat, untilGone } from "../support/processes.ts";
import { describeReal } from "../support/requirements.ts";
import type { RuntimeClient } from "../support/runtime.ts";
import { lifecycle, PATH } from "../support/side-by-side.ts";

/** The whole runtime over a connection that the system's ssh keeps, and the ends of all processes that it takes. */
describeReal("the runtime over the openssh carrier", () => {
  let host: BuildHost;
  let client: RuntimeClient;
  beforeAll(async () => {
    host = await BuildHost.start();
    client = host.client({ carrier: "openssh" });
    await client.create("w", { kind: "directory", path: host.emptyFolder() });
  });
  afterAll(() => host?.stop());

  const MEBIBYTE = 1024 * 1024;
  const sha256 = (bytes: Buffer) => createHash("sha256").update(bytes).digest("hex");

  /** Each ssh and its guard. The guard's command line names the control socket; ssh changes its own once it is connected. */
  function sshPids(of = client): number[] {
    const guards = processesWith(`${of.brokerFolder}/ssh-`);
    const brokers = brokerPids(of);
    const children = guards.flatMap((pid) => processStat(pid)?.parent ?? []).filter((pid) => !brokers.includes(pid));
    return [...new Set([...guards, ...children])];
  }

  it("carries pipes both ways, and says how commands end", async () => {
    const input = randomBytes(6 * MEBIBYTE);
    const cat = await client.execute("w", ["sh", "-c", "cat; echo done >&2; exit 3"], { input, env: { PATH } });
    expect([cat.code, cat.stderr.toString(), sha256(cat.stdout)]).toEqual([3, "done\n", sha256(input)]);
    expect(await client.execute("w", ["sh", "-c", "kill -TERM $$"], { env: { PATH } })).toMatchObject({
      code: null,
      signal: "SIGTERM",
    });
    expect(sshPids()).toHaveLength(2);
  });

  it("carries a terminal", async () => {
    const argv = ["sh", "-c", "stty -echo; echo ready; read line; stty size; exit 4"];
    const exec = client.exec("w", { argv, env: { PATH }, stdio: { kind: "pty", rows: 5, cols: 50 } });
    await exec.outputContains("ready");
    exec.control.write(`${JSON.stringify({ type: "resize", protocolVersion: 1, id: 1, rows: 40, cols: 140 })}\n`);
    await exec.event((event) => event.type === "resized");
    exec.stdin.write("\n");
    expect(await exec.result()).toMatchObject({ code: 4 });
    expect(exec.output.toString()).toBe("ready\r\n40 140\r\n");
  });

  it("carries 20 executions at once over one login", async () => {
    const numbers = Array.from({ length: 20 }, (_, number) => number);
    const results = await Promise.all(
      numbers.map((number) =>
        client.execute("w", ["sh", "-c", `cat; exit ${number}`], { input: `${number}`, env: { PATH } }),
      ),
    );
    expect(results.map(({ code, stdout }) => [code, stdout.toString()])).toEqual(
      numbers.map((number) => [number, `${number}`]),
    );
    expect(host.logins()).toBe(1);
  });

  it("goes on over a new connection when ssh is killed, without losing or repeating a byte", async () => {
    const input = randomBytes(12 * MEBIBYTE);
    const exec = client.exec("w", { argv: ["cat"], env: { PATH } });
    exec.stdin.end(input);
    for (const megabytes of [1, 6]) {
      await exec.until(() => exec.output.length > megabytes * MEBIBYTE);
      const pids = sshPids();
      for (const pid of pids) process.kill(pid, "SIGKILL");
      await untilGone(...pids);
    }
    const result = await exec.result();
    expect([result.stdout.length, sha256(result.stdout)]).toEqual([input.length, sha256(input)]);
    expect(exec.events).toEqual(lifecycle(0, null));
    expect(sshPids()).toHaveLength(2);
  });

  it("goes on when the server drops the connection", async () => {
    const exec = client.exec("w", { argv: ["sh", "-c", "echo ready; read line; echo got $line"], env: { PATH } });
    await exec.outputContains("ready\n");
    const pids = sshPids();
    host.sshd.killSessions();
    await untilGone(...pids);
    exec.stdin.end("across\n");
    expect((await exec.result()).stdout.toString()).toBe("ready\ngot across\n");
  });

  it("leaves no ssh behind when the broker is killed, and goes on over the next one", async () => {
    const exec = client.exec("w", { argv: ["sh", "-c", "echo ready; read line; echo got $line"], env: { PATH } });
    await exec.outputContains("ready\n");
    const pids = sshPids();
    expect(pids).toHaveLength(2);
    process.kill(brokerPids(client)[0]!, "SIGKILL");
    await untilGone(...pids);
    exec.stdin.end("across\n");
    expect((await exec.result()).stdout.toString()).toBe("ready\ngot across\n");
  });

  it("leaves no ssh behind when the broker is told to stop", async () => {
    await client.execute("w", ["true"], { env: { PATH } });
    const pids = sshPids();
    expect(pids).toHaveLength(2);
    await client.run(["broker", "stop"]);
    await untilGone(...pids);
    expect(sshPids()).toEqual([]);
  });

  it("leaves no ssh behind when the broker is killed while it logs in", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const connected = once(server, "connection");
    const { port } = server.address() as { port: number };
    const silent = host.client({ carrier: "openssh", port, connectTimeoutMs: 60_000 });
    const request = JSON.stringify(silent.request());
    const operation = silent.start(["inspect", "--workspace-id", "w"], request);
    const [socket] = await connected;
    const pids = sshPids(silent);
    expect(pids).toHaveLength(2);
    process.kill(-operation.pid, "SIGKILL");
    process.kill(brokerPids(silent)[0]!, "SIGKILL");
    await untilGone(...pids);
    await operation.result;
    socket.destroy();
    server.close();
  });

  it("makes a connection for each name in ssh_config, since ssh looks it up itself", async () => {
    const logins = host.logins();
    const one = client.with({ options: { connectTimeoutMs: 20_000 } });
    expect((await one.execute("w", ["echo", "same"], { env: { PATH } })).stdout.toString()).toBe("same\n");
    expect((await client.execute("w", ["echo", "same"], { env: { PATH } })).stdout.toString()).toBe("same\n");
    expect(host.logins()).toBe(logins + 1);
    const named = client.with({
      options: { host: "localhost", hostKeyPolicy: "accept-new", knownHostsFile: host.path("kh") },
    });
    expect((await named.execute("w", ["echo", "other"], { env: { PATH } })).stdout.toString()).toBe("other\n");
    expect(host.logins()).toBe(logins + 2);
  });
});

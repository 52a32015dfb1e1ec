import { createHash, randomBytes } from "node:crypto";
import { appendFileSync, mkdirSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { BuildHost, brokerPids, execFailureCode } from "../support/build-host.ts";
import { type DelayingProxy, startDelayingProxy } from "../support/delaying-proxy.ts";
import { isRunning, untilGone } from "../support/processes.ts";
import { describeReal } from "../support/requirements.ts";
import type { Exec, ExecResult, RuntimeClient } from "../support/runtime.ts";

/** What becomes of executions when something between Paseo and the workload is lost. */
describeReal("losing", () => {
  let host: BuildHost;
  let client: RuntimeClient;
  beforeAll(async () => {
    host = await BuildHost.start();
    client = host.client();
    mkdirSync(host.path("empty"));
    await client.create("w", { kind: "directory", path: host.path("empty") });
  });
  afterAll(() => host?.stop());

  const LOOP = "while :; do sleep 0.05; done";
  const WHOLE = ["started", "eof", "exit"];
  const eventTypes = ({ events }: ExecResult) => events.map((event) => event.type);
  const sha256 = (bytes: Buffer) => createHash("sha256").update(bytes).digest("hex");

  const status = async (of: RuntimeClient) => JSON.parse((await of.run(["status", "--json"])).stdout);

  /** A command that says its pid once it has set its traps. */
  async function running(script: string, { from = client, traps = ":" } = {}): Promise<{ exec: Exec; pid: number }> {
    const exec = from.exec("w", { argv: ["sh", "-c", `${traps}; echo $$; ${script}`] });
    await exec.outputContains("\n");
    return { exec, pid: Number(exec.output.trim()) };
  }

  it("the broker, told to stop: an execution goes on over the next one", async () => {
    const { exec, pid } = await running("read line; echo got $line; exit 7");
    const [broker] = brokerPids(client);
    await client.run(["broker", "stop"]);
    await untilGone(broker!);
    expect(isRunning(pid)).toBe(true);
    exec.stdin.end("across\n");
    const result = await exec.result();
    expect(result).toMatchObject({ code: 7, signal: null });
    expect(result.stdout.toString("utf8")).toBe(`${pid}\ngot across\n`);
    expect(result.stderr.toString("utf8")).toBe("");
    expect(eventTypes(result)).toEqual(WHOLE);
    expect(brokerPids(client)).not.toEqual([broker]);
  });

  it("the broker, killed: the same", async () => {
    const { exec, pid } = await running("read line; echo got $line");
    const [broker] = brokerPids(client);
    process.kill(broker!, "SIGKILL");
    await untilGone(broker!);
    exec.stdin.end("across\n");
    expect((await exec.result()).stdout.toString("utf8")).toBe(`${pid}\ngot across\n`);
  });

  it("the connection, in the middle of streams both ways: every byte arrives once", async () => {
    const input = randomBytes(20 * 1024 * 1024);
    const exec = client.exec("w", { argv: ["cat"] });
    exec.stdin.end(input);
    for (const megabytes of [1, 8]) {
      await exec.until(() => exec.output.length > megabytes * 1024 * 1024);
      host.sshd.killSessions();
    }
    const result = await exec.result();
    expect([result.code, result.signal]).toEqual([0, null]);
    expect([result.stdout.length, sha256(result.stdout)]).toEqual([input.length, sha256(input)]);
    expect(eventTypes(result)).toEqual(WHOLE);
  });

  it("the connection of a terminal: it goes on, and resizes still work", async () => {
    const argv = ["sh", "-c", "stty -echo; echo ready; read line; stty size; exit 3"];
    const exec = client.exec("w", { argv, env: { PATH: "/usr/bin:/bin" }, stdio: { kind: "pty", rows: 5, cols: 50 } });
    await exec.outputContains("ready");
    host.sshd.killSessions();
    exec.control.write(`${JSON.stringify({ type: "resize", protocolVersion: 1, id: 1, rows: 40, cols: 140 })}\n`);
    await exec.event((event) => event.type === "resized");
    exec.stdin.write("\n");
    const result = await exec.result();
    expect(result.code).toBe(3);
    expect(result.stdout.toString("utf8")).toBe("ready\r\n40 140\r\n");
    expect(eventTypes(result)).toEqual(["started", "resized", "eof", "exit"]);
  });

  it("the wrapper, killed: its workload is hung up, and nothing else is touched", async () => {
    const other = await running("exec sleep 1000");
    const mine = await running(LOOP, { traps: "trap 'echo hup >hup; exit' HUP" });
    process.kill(-mine.exec.child.pid!, "SIGKILL");
    await untilGone(mine.pid);
    expect((await client.execute("w", ["cat", "hup"])).stdout.toString("utf8")).toBe("hup\n");
    expect(await client.signal("w", mine.exec.execId, "SIGKILL")).toMatchObject({ code: 0, stderr: "" });

    const deaf = await running(LOOP, { traps: "trap '' HUP" });
    process.kill(-deaf.exec.child.pid!, "SIGKILL");
    await untilGone(deaf.pid);

    expect(isRunning(other.pid)).toBe(true);
    expect(await client.signal("w", other.exec.execId, "SIGTERM")).toMatchObject({ code: 0, stderr: "" });
    expect(await other.exec.result()).toMatchObject({ signal: "SIGTERM" });
  });

  describe("the connection for a while", () => {
    let proxy: DelayingProxy;
    let far: RuntimeClient;
    beforeAll(async () => {
      proxy = await startDelayingProxy({ target: host.sshd, oneWayDelayMs: 0 });
      const { knownHostsFile } = host.sshd;
      appendFileSync(knownHostsFile, `[${proxy.host}]:${proxy.port} ${host.sshd.hostPublicKeys[0]}\n`);
      far = host.client({ port: proxy.port }, { runtimeInstanceId: client.runtimeInstanceId });
    });
    afterAll(() => proxy?.stop());

    async function cut(): Promise<void> {
      await proxy.refuse(true);
      proxy.cut();
    }

    it("an execution waits for it, and input that came meanwhile arrives", async () => {
      const { exec, pid } = await running("read line; echo got $line", { from: far });
      await cut();
      exec.stdin.end("patience\n");
      await expect.poll(async () => (await status(far)).hosts[0].error).toMatch(/\[connection-refused\]$/);
      await proxy.refuse(false);
      expect((await exec.result()).stdout.toString("utf8")).toBe(`${pid}\ngot patience\n`);
    });

    it("and the wrapper meanwhile: its workload is ended once the connection is back", async () => {
      const { exec, pid } = await running("exec sleep 1000", { from: far });
      await cut();
      await expect.poll(async () => (await status(far)).hosts[0].error).toMatch(/\[connection-refused\]$/);
      process.kill(-exec.child.pid!, "SIGKILL");
      await proxy.refuse(false);
      await untilGone(pid);
    });

    it("and for longer than the window: the workload ends, and the wrapper says so", async () => {
      const impatient = far.with({ options: { reconnectWindowMs: 500 } });
      const { exec, pid } = await running("exec sleep 1000", { from: impatient });
      await cut();
      const result = await exec.result();
      expect(execFailureCode({ ...result, stdout: Buffer.alloc(0) })).toBe("reconnect-window-exceeded");
      await untilGone(pid);
      await proxy.refuse(false);
      expect((await impatient.inspect("w")).status).toBe("ready");
    });
  });

  it("the agent, killed: the execution is lost and says so; the next agent ends what was left", async () => {
    const left = await running(`(sleep 1000 & echo $! >child; wait) & ${LOOP}`, { traps: "trap '' HUP" });
    const child = async () => (await client.execute("w", ["cat", "child"])).stdout.toString("utf8");
    await expect.poll(child).toMatch(/^\d+\n$/);
    const childPid = Number(await child());
    const before = await client.inspect("w");

    await host.killAgents();
    expect(isRunning(left.pid)).toBe(true);
    const result = await left.exec.result();
    expect(execFailureCode({ ...result, stdout: Buffer.alloc(0) })).toBe("execution-lost");
    expect(eventTypes(result)).toEqual(["started", "error"]);
    await untilGone(left.pid, childPid);

    expect(await client.inspect("w")).toEqual(before);
    expect((await client.execute("w", ["echo", "works"])).stdout.toString("utf8")).toBe("works\n");
    expect(await client.signal("w", left.exec.execId, "SIGKILL")).toMatchObject({ code: 0, stderr: "" });
    expect(host.agentPids()).toHaveLength(1);
  });
});

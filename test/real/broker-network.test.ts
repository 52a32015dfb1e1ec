import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { BuildHost, brokerPids } from "../support/build-host.ts";
import { type DelayingProxy, startDelayingProxy } from "../support/delaying-proxy.ts";
import { describePrivileged, describeReal } from "../support/requirements.ts";
import type { Exec, RuntimeClient } from "../support/runtime.ts";
import { PATH } from "../support/side-by-side.ts";

/** Three of these are far longer than any test waits: silence alone ends no connection here. Milliseconds. */
const KEEPALIVE_MS = 120_000;
/** Longer than a timer of the broker is ever late on a busy machine, in ms. */
const SLEEP_MS = 5000;
const ADDRESS = "127.77.0.1";

let host: BuildHost;
let proxies: DelayingProxy[];
beforeAll(async () => {
  host = await BuildHost.start();
  proxies = await Promise.all([0, 0].map((oneWayDelayMs) => startDelayingProxy({ target: host.sshd, oneWayDelayMs })));
});
afterAll(async () => {
  await host?.stop();
  for (const proxy of proxies ?? []) await proxy.stop();
});

async function clientThrough(proxy: DelayingProxy, options: Record<string, unknown> = {}): Promise<RuntimeClient> {
  const client = host.client({
    port: proxy.port,
    hostKeyPolicy: "accept-new",
    keepaliveIntervalMs: KEEPALIVE_MS,
    ...options,
  });
  await client.create(host.newName(), { kind: "directory", path: host.emptyFolder() });
  return client;
}

async function startEcho(client: RuntimeClient): Promise<Exec> {
  const id = host.newName();
  await client.create(id, { kind: "directory", path: host.emptyFolder() });
  const exec = client.exec(id, { argv: ["cat"], env: { PATH } });
  exec.stdin.write("before\n");
  await exec.outputContains("before\n");
  return exec;
}

/** What a link does that has lost its memory of us: nothing arrives, and nobody says so. */
function loseInSilence(proxy: DelayingProxy): void {
  proxy.blackhole(true);
  proxy.blackhole(false);
}

async function expectEcho(exec: Exec): Promise<void> {
  exec.stdin.end("after\n");
  await exec.outputContains("before\nafter\n");
  expect((await exec.result()).code).toBe(0);
}

describeReal("a connection that died in silence", () => {
  it("is replaced when this machine wakes up", async () => {
    const client = await clientThrough(proxies[0]!);
    const exec = await startEcho(client);
    const [broker] = brokerPids(client);
    loseInSilence(proxies[0]!);
    process.kill(broker!, "SIGSTOP");
    // There is nothing to wait for but the time that passes.
    await delay(SLEEP_MS);
    process.kill(broker!, "SIGCONT");
    await expectEcho(exec);
  });
});

describePrivileged("a connection of a machine that moves to another network", () => {
  const address = (verb: "add" | "del") => execFileSync("ip", ["address", verb, `${ADDRESS}/32`, "dev", "lo"]);
  afterEach(() => address("del"));

  it("is replaced", async () => {
    const exec = await startEcho(await clientThrough(proxies[0]!));
    loseInSilence(proxies[0]!);
    address("add");
    await expectEcho(exec);
  });
});

describeReal("an execution that waits for its host", () => {
  it("follows ssh_config to where the host is now", async () => {
    const [first, second] = proxies as [DelayingProxy, DelayingProxy];
    const sshConfigFile = host.path("moving_ssh_config");
    const writeConfig = (port: number) =>
      writeFileSync(sshConfigFile, `Host moving\n  HostName ${host.sshd.host}\n  Port ${port}\n`);
    writeConfig(first.port);
    const { port: _port, ...options } = host.sshd.options({ root: host.root, helper: false });
    const client = host.client({
      ...options,
      port: undefined,
      host: "moving",
      sshConfigFile,
      hostKeyPolicy: "accept-new",
    });
    const exec = await startEcho(client);
    await first.refuse(true);
    first.cut();
    writeConfig(second.port);
    await expectEcho(exec);
    await first.refuse(false);
  });
});

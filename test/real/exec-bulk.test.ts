import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { setTimeout } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { BuildHost, brokerPids } from "../support/build-host.ts";
import { form } from "../support/form.ts";
import { residentMemory } from "../support/processes.ts";
import { describeReal } from "../support/requirements.ts";
import type { RuntimeClient } from "../support/runtime.ts";
import { type BothWays, describeBytes, lifecycle, observe, openBothWays, PATH } from "../support/side-by-side.ts";

const MEBIBYTE = 1024 * 1024;

/** Streams that go on for long, on a server that asks for new keys all the while. */
describeReal("a long stream", () => {
  let host: BuildHost;
  let ways: BothWays;
  beforeAll(async () => {
    host = await BuildHost.start({ config: ["RekeyLimit 1M"] });
    ways = await openBothWays(host, host.emptyFolder());
  });
  afterAll(() => host?.stop());

  it("is not changed by new keys in the middle of it, in either direction", async () => {
    const input = randomBytes(32 * MEBIBYTE);
    const seen = await observe(ways.remotely({ argv: ["cat"] }), input);
    expect(seen).toEqual({ code: 0, signal: null, stdout: describeBytes(input), stderr: "" });
  });
});

describeReal("a stream whose reader stops", () => {
  let host: BuildHost;
  let client: RuntimeClient;
  beforeAll(async () => {
    host = await BuildHost.start();
    ({ client } = await openBothWays(host, host.emptyFolder()));
  });
  afterAll(() => host?.stop());

  const MEBIBYTES = form(256, 1024);
  const BLOCK = Buffer.alloc(MEBIBYTE);
  const STOPS = 3;
  /** Long enough for everything between the two ends to fill up. Milliseconds. */
  const STOP_MS = 700;
  /**
   * What a process of ours may hold in memory, in MiB. A bare node holds 45; the rest is code, windows of 2 MiB, and what
   * the garbage collector has not fetched yet (measured: 70 to 95 in all). A stream kept in memory would be far beyond.
   */
  const CAP_MEBIBYTES = 128;
  const timeout = form(60_000, 600_000);

  function expectBounded(wrapper: number): void {
    const pids = { wrapper, agent: host.agentPids()[0]!, broker: brokerPids(client)[0]! };
    for (const [name, pid] of Object.entries(pids)) {
      expect(residentMemory(pid).most, `MiB of the ${name}`).toBeLessThan(CAP_MEBIBYTES);
    }
  }

  it("stops its writer on the host, and nobody keeps it in memory", { timeout }, async () => {
    const argv = ["head", "-c", String(MEBIBYTES * MEBIBYTE), "/dev/zero"];
    const exec = client.exec("w", { argv, env: { PATH }, collectOutput: false });
    let count = 0;
    let stops = 0;
    for await (const bytes of exec.child.stdout!) {
      count += bytes.length;
      if (stops === STOPS || count < (stops * MEBIBYTES * MEBIBYTE) / STOPS) continue;
      stops += 1;
      await setTimeout(STOP_MS);
      expectBounded(exec.child.pid!);
    }
    const { code, signal } = await exec.result();
    expect({ code, signal, events: exec.events, count, stops }).toEqual({
      code: 0,
      signal: null,
      events: lifecycle(0, null),
      count: MEBIBYTES * MEBIBYTE,
      stops: STOPS,
    });
  });

  it("stops its writer here, and nobody keeps it in memory", { timeout }, async () => {
    const part = Math.floor((MEBIBYTES * MEBIBYTE) / STOPS);
    const script = `for stop in $(seq ${STOPS}); do sleep ${STOP_MS / 1000}; head -c ${part} | wc -c; done; wc -c`;
    const exec = client.exec("w", { argv: ["sh", "-c", script], env: { PATH } });
    for (let index = 0; index < MEBIBYTES; index += 1) {
      if (!exec.stdin.write(BLOCK)) await once(exec.stdin, "drain");
      if (index % 16 === 0) expectBounded(exec.child.pid!);
    }
    exec.stdin.end();
    const counts = (await exec.result()).stdout.toString().trim().split("\n").map(Number);
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(MEBIBYTES * MEBIBYTE);
    expect(counts).toHaveLength(STOPS + 1);
  });
});

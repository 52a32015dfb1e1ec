import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { type DelayingProxy, startDelayingProxy } from "../support/delaying-proxy.ts";
import { RuntimeClient } from "../support/runtime.ts";
import { type Sshd, startSshd } from "../support/sshd.ts";
import { echoLatency, echoRow, memoryPerExecution, resumeTimes } from "./executions.ts";
import { interleaved, median, number, percentile, type Series, table } from "./measure.ts";
import { run, SshPeer } from "./peers.ts";
import { agentPid, peakMemory, residentMemory } from "./processes.ts";
import { runtimeDown, runtimeUp, sshDown, sshUp } from "./throughput.ts";

/**
 * `npm run bench`: how the runtime compares with a bare node and with OpenSSH's own client, in one run on one machine,
 * over a stock sshd on loopback and with round-trip time added by our proxy. `--quick` takes a few minutes less,
 * `--write FILE` keeps the tables.
 */

const MEBIBYTE = 1024 * 1024;
const ROUND_TRIPS_MS = [0, 30, 100];
const quick = process.argv.includes("--quick");
const ROUNDS = quick ? 7 : 25;
const BULK_BYTES = (quick ? 128 : 512) * MEBIBYTE;
/** A megabyte takes long at 100 ms of round-trip time. */
const FAR_BULK_BYTES = (quick ? 32 : 128) * MEBIBYTE;
const WORKSPACE = "bench";
const TRUE = { env: { PATH: "/usr/local/bin:/usr/bin:/bin" } };

interface Site {
  rttMs: number;
  proxy: DelayingProxy | undefined;
  client: RuntimeClient;
  peer: SshPeer;
  root: string;
}

async function main(): Promise<void> {
  const sshd = await startSshd();
  const source = mkdtempSync(join(tmpdir(), "psr-bench-source-"));
  const sections: string[] = [environment()];
  try {
    for (const rttMs of ROUND_TRIPS_MS) {
      const site = await openSite(sshd, rttMs);
      try {
        console.error(`measuring at ${rttMs} ms`);
        await site.client.create(WORKSPACE, { kind: "directory", path: source });
        sections.push(await latencies(site), await throughputs(site));
        if (rttMs === 0) sections.push(await startAndSignal(site), await memory(site), await many(site));
      } finally {
        await closeSite(site);
      }
    }
    sections.push(await badLinks(sshd, source));
  } finally {
    rmSync(source, { recursive: true, force: true });
    await sshd.stop();
  }
  const text = `${sections.join("\n\n")}\n`;
  const target = process.argv[process.argv.indexOf("--write") + 1];
  if (process.argv.includes("--write") && target !== undefined) writeFileSync(target, text);
  console.log(text);
}

function environment(): string {
  const [first] = cpus();
  return `Node ${process.version}, ${cpus().length} cores of ${first?.model ?? "unknown"}, ${ROUNDS} rounds, medians.`;
}

async function openSite(sshd: Sshd, rttMs: number, always = false): Promise<Site> {
  const proxied = rttMs > 0 || always;
  const proxy = proxied ? await startDelayingProxy({ target: sshd, oneWayDelayMs: rttMs / 2 }) : undefined;
  const root = mkdtempSync(join(tmpdir(), "psr-bench-root-"));
  const port = proxy?.port ?? sshd.port;
  // This file runs from dist/.
  const launcher = join(import.meta.dirname, "../bin/paseo-ssh-runtime.cjs");
  const client = new RuntimeClient(sshd.options({ root, port, helper: false, hostKeyPolicy: "accept-new" }), {
    launcher,
  });
  const peer = new SshPeer(sshd, port);
  await peer.startMaster();
  return { rttMs, proxy, client, peer, root };
}

async function closeSite(site: Site): Promise<void> {
  await site.peer.stopMaster();
  await site.client.close();
  const agent = agentPid(site.root);
  if (agent !== undefined) process.kill(agent, "SIGKILL");
  await site.proxy?.stop();
  rmSync(site.root, { recursive: true, force: true });
}

async function latencies({ rttMs, client, peer }: Site): Promise<string> {
  const env = client.env;
  const series = await interleaved(
    {
      "node -e 0": () => run(process.execPath, ["-e", "0"], env),
      describe: () => client.run(["describe"]),
      "inspect (warm)": () => client.inspect(WORKSPACE),
      "exec true (warm)": () => client.execute(WORKSPACE, ["true"], TRUE),
      "ssh true (cold)": () => run("ssh", peer.cold("true"), env),
      "ssh true (ControlMaster)": () => run("ssh", peer.shared("true"), env),
    },
    ROUNDS,
  );
  const bare = median(series[0]!.values);
  const rows = series.map((one) => latencyRow(one, bare, rttMs));
  return `## Latency at ${rttMs} ms of round-trip time\n\n${table(["what", "median ms", "p90 ms", "(median - RTT) / bare node"], rows)}`;
}

function latencyRow({ name, values }: Series, bare: number, rttMs: number): string[] {
  const local = ["node -e 0", "describe"].includes(name);
  const ratio = (median(values) - (local ? 0 : rttMs)) / bare;
  return [name, number(median(values)), number(percentile(values, 0.9)), number(ratio, 2)];
}

async function throughputs({ rttMs, client, peer }: Site): Promise<string> {
  const bytes = rttMs === 0 ? BULK_BYTES : FAR_BULK_BYTES;
  const rounds = quick ? 1 : 5;
  const results = { down: [] as number[], sshDown: [] as number[], up: [] as number[], sshUp: [] as number[] };
  for (let round = 0; round < rounds; round += 1) {
    results.down.push(await runtimeDown(client, WORKSPACE, bytes));
    results.sshDown.push(await sshDown(peer, bytes));
    results.up.push(await runtimeUp(client, WORKSPACE, bytes));
    results.sshUp.push(await sshUp(peer, bytes));
  }
  const row = (name: string, own: number[], ssh: number[]) => [
    name,
    number(median(own), 0),
    number(median(ssh), 0),
    number(median(own) / median(ssh), 2),
  ];
  const rows = [row("host to here", results.down, results.sshDown), row("here to host", results.up, results.sshUp)];
  return `## Throughput at ${rttMs} ms of round-trip time\n\n${table(["direction", "MiB/s", "ControlMaster MiB/s", "ratio"], rows)}`;
}

async function startAndSignal({ client, root }: Site): Promise<string> {
  const cold: number[] = [];
  const signals: number[] = [];
  for (let round = 0; round < Math.min(ROUNDS, 7); round += 1) {
    await client.run(["broker", "stop"]);
    process.kill(agentPid(root)!, "SIGKILL");
    const start = performance.now();
    await client.execute(WORKSPACE, ["true"], TRUE);
    cold.push(performance.now() - start);
    const exec = client.exec(WORKSPACE, { argv: ["sleep", "60"], ...TRUE });
    await exec.started();
    const sent = performance.now();
    await client.signal(WORKSPACE, exec.execId, "SIGKILL");
    signals.push(performance.now() - sent);
    await exec.result();
  }
  const rows = [
    ["first exec with nothing running", number(median(cold))],
    ["signal SIGKILL of a live execution", number(median(signals))],
  ];
  return `## First start and signal, loopback\n\n${table(["what", "median ms"], rows)}`;
}

async function memory({ client, root }: Site): Promise<string> {
  const broker = JSON.parse((await client.run(["status", "--json"])).stdout).broker.pid;
  const exec = client.exec(WORKSPACE, {
    argv: ["head", "-c", String(BULK_BYTES), "/dev/zero"],
    ...TRUE,
    collectOutput: false,
  });
  exec.stdin.end();
  let wrapper = 0;
  exec.child.stdout!.on("data", () => {
    wrapper = Math.max(wrapper, peakMemoryOrZero(exec.child.pid!));
  });
  await once(exec.child, "close");
  const rows = [
    ["wrapper", number(wrapper)],
    ["broker", number(peakMemory(broker))],
    ["agent", number(peakMemory(agentPid(root)!))],
  ];
  return `## Peak resident memory during ${BULK_BYTES / MEBIBYTE} MiB of output\n\n${table(["process", "MiB"], rows)}`;
}

async function many({ client, root }: Site): Promise<string> {
  const agent = agentPid(root)!;
  const sequence = quick ? 100 : 1000;
  const perExecution = await memoryPerExecution(client, WORKSPACE, agent, 50);
  const before = residentMemory(agent);
  const start = performance.now();
  for (let count = 0; count < sequence; count += 1) await client.execute(WORKSPACE, ["true"], TRUE);
  const each = (performance.now() - start) / sequence;
  const rows = [
    ["memory of the agent for one idle execution, KiB", number(perExecution, 0)],
    [`one of ${sequence} executions in sequence, ms`, number(each)],
    [`growth of the agent over ${sequence} executions, MiB`, number(residentMemory(agent) - before)],
  ];
  return `## Many executions, loopback\n\n${table(["what", "value"], rows)}`;
}

/** A terminal beside bulk output, and links that are cut. */
async function badLinks(sshd: Sshd, source: string): Promise<string> {
  const keystrokes = quick ? 40 : 200;
  const rows: string[][] = [];
  let resumed: number[] = [];
  for (const [name, rttMs, bytesPerSecond] of [
    ["loopback", 0, undefined],
    ["30 ms, 20 MB/s", 30, 20e6],
    ["100 ms, 10 MB/s", 100, 10e6],
  ] as const) {
    const site = await openSite(sshd, rttMs, true);
    try {
      site.proxy!.rateLimit(bytesPerSecond);
      await site.client.create(WORKSPACE, { kind: "directory", path: source });
      rows.push(echoRow(name, await echoLatency(site.client, WORKSPACE, keystrokes)));
      if (rttMs === 0) resumed = await resumeTimes(site.client, WORKSPACE, site.proxy!, quick ? 3 : 10);
    } finally {
      await closeSite(site);
    }
  }
  const headers = ["link", "echo p50 ms", "p95", "beside 8 streams p50", "p95", "MB/s of these", "longest gap ms"];
  return [
    `## A terminal beside 8 saturating streams\n\n${table(headers, rows)}`,
    `## Links that are cut for half a second\n\nFrom the healed link to the next byte: median ${number(median(resumed), 0)} ms, longest ${number(Math.max(...resumed), 0)} ms.`,
  ].join("\n\n");
}

function peakMemoryOrZero(pid: number): number {
  try {
    return peakMemory(pid);
  } catch {
    return 0;
  }
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});

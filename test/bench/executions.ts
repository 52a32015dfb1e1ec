import { setTimeout as delay } from "node:timers/promises";
import type { DelayingProxy } from "../support/delaying-proxy.ts";
import type { Exec, RuntimeClient } from "../support/runtime.ts";
import { median, percentile } from "./measure.ts";
import { residentMemory } from "./processes.ts";

/** What many executions, bad links and bulk output do to one another. */

const ENV = { PATH: "/usr/local/bin:/usr/bin:/bin" };
const STREAMS = 8;
/** Keystrokes come at this pace, in ms. */
const KEYSTROKE_MS = 20;
/** Bulk streams run for so long before anything is measured, in ms. */
const WARM_UP_MS = 1500;

export interface EchoLatency {
  idle: number[];
  loaded: number[];
  /** MB per second of the bulk streams together. */
  rate: number;
  /** Longest time for which one of them brought nothing, in ms. */
  longestGap: number;
}

/** The time from a keystroke to its echo in a raw terminal, alone and beside saturating streams. */
export async function echoLatency(
  client: RuntimeClient,
  workspaceId: string,
  keystrokes: number,
): Promise<EchoLatency> {
  const terminal = client.exec(workspaceId, {
    argv: ["sh", "-c", "stty raw -echo; echo ready; cat"],
    env: ENV,
    stdio: { kind: "pty", rows: 24, cols: 80 },
  });
  await terminal.outputContains("ready");
  const idle = await typeInto(terminal, keystrokes, "idle");
  let bytes = 0;
  let longestGap = 0;
  const streams = Array.from({ length: STREAMS }, () => {
    const exec = client.exec(workspaceId, { argv: ["cat", "/dev/zero"], env: ENV, collectOutput: false });
    let last = Number.NaN;
    exec.child.stdout!.on("data", (chunk: Buffer) => {
      const now = performance.now();
      if (now - last > longestGap) longestGap = now - last;
      last = now;
      bytes += chunk.length;
    });
    return exec;
  });
  await Promise.all(streams.map((stream) => stream.started()));
  await delay(WARM_UP_MS);
  longestGap = 0;
  bytes = 0;
  const start = performance.now();
  const loaded = await typeInto(terminal, keystrokes, "loaded");
  const rate = bytes / 1e6 / ((performance.now() - start) / 1000);
  for (const stream of streams) stream.child.kill("SIGKILL");
  await client.signal(workspaceId, terminal.execId, "SIGKILL");
  await terminal.result();
  return { idle, loaded, rate, longestGap };
}

async function typeInto(terminal: Exec, keystrokes: number, label: string): Promise<number[]> {
  const times: number[] = [];
  for (let count = 0; count < keystrokes; count += 1) {
    const key = `<${label}-${count}>`;
    const start = performance.now();
    terminal.stdin.write(key);
    await terminal.outputContains(key);
    times.push(performance.now() - start);
    await delay(KEYSTROKE_MS);
  }
  return times;
}

/** The time from a healed link to the next byte of an execution that writes all the time, in ms. */
export async function resumeTimes(
  client: RuntimeClient,
  workspaceId: string,
  proxy: DelayingProxy,
  rounds: number,
): Promise<number[]> {
  const exec = client.exec(workspaceId, { argv: ["sh", "-c", "while sleep 0.01; do echo tick; done"], env: ENV });
  await exec.outputContains("tick");
  const times: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    await proxy.refuse(true);
    proxy.cut();
    await delay(500);
    const before = exec.output.length;
    await proxy.refuse(false);
    const healed = performance.now();
    await exec.until(() => exec.output.length > before);
    times.push(performance.now() - healed);
  }
  await client.signal(workspaceId, exec.execId, "SIGKILL");
  await exec.result();
  return times;
}

/** KiB of resident memory that one idle execution costs the agent. */
export async function memoryPerExecution(
  client: RuntimeClient,
  workspaceId: string,
  agent: number,
  count: number,
): Promise<number> {
  const before = residentMemory(agent);
  const idle = Array.from({ length: count }, () => client.exec(workspaceId, { argv: ["sleep", "600"], env: ENV }));
  await Promise.all(idle.map((exec) => exec.started()));
  const after = residentMemory(agent);
  for (const exec of idle) exec.child.kill("SIGTERM");
  await Promise.all(idle.map((exec) => exec.result()));
  return ((after - before) * 1024) / count;
}

export function echoRow(name: string, { idle, loaded, rate, longestGap }: EchoLatency): string[] {
  const ms = (value: number) => value.toFixed(1);
  return [
    name,
    ms(median(idle)),
    ms(percentile(idle, 0.95)),
    ms(median(loaded)),
    ms(percentile(loaded, 0.95)),
    rate.toFixed(0),
    ms(longestGap),
  ];
}

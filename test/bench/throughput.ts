import { spawn } from "node:child_process";
import { once } from "node:events";
import type { RuntimeClient } from "../support/runtime.ts";
import type { SshPeer } from "./peers.ts";

/** Megabytes per second of one bulk stream, through the runtime and through ssh with ControlMaster. */

const MEBIBYTE = 1024 * 1024;
const ENV = { PATH: "/usr/local/bin:/usr/bin:/bin" };

export async function runtimeDown(client: RuntimeClient, workspaceId: string, bytes: number): Promise<number> {
  const exec = client.exec(workspaceId, {
    argv: ["head", "-c", String(bytes), "/dev/zero"],
    env: ENV,
    collectOutput: false,
  });
  exec.stdin.end();
  return await rate(bytes, async () => {
    const received = await count(exec.child.stdout!);
    if (received !== bytes) throw new Error(`${received} of ${bytes} bytes came`);
    await exec.result();
  });
}

export async function runtimeUp(client: RuntimeClient, workspaceId: string, bytes: number): Promise<number> {
  const exec = client.exec(workspaceId, { argv: ["wc", "-c"], env: ENV });
  await exec.started();
  return await rate(bytes, async () => {
    await feed(exec.stdin, bytes);
    const { stdout } = await exec.result();
    if (Number(stdout.toString()) !== bytes) throw new Error(`the host counted ${stdout}`);
  });
}

export async function sshDown(peer: SshPeer, bytes: number): Promise<number> {
  const child = spawn("ssh", peer.shared("head", "-c", String(bytes), "/dev/zero"), {
    stdio: ["ignore", "pipe", "inherit"],
  });
  return await rate(bytes, async () => {
    const received = await count(child.stdout);
    if (received !== bytes) throw new Error(`${received} of ${bytes} bytes came over ssh`);
  });
}

export async function sshUp(peer: SshPeer, bytes: number): Promise<number> {
  const child = spawn("ssh", peer.shared("wc", "-c"), { stdio: ["pipe", "ignore", "inherit"] });
  const exited = once(child, "exit");
  return await rate(bytes, async () => {
    await feed(child.stdin, bytes);
    await exited;
  });
}

async function count(stream: NodeJS.ReadableStream): Promise<number> {
  let received = 0;
  for await (const chunk of stream) received += chunk.length;
  return received;
}

async function feed(stream: NodeJS.WritableStream, bytes: number): Promise<void> {
  const block = Buffer.alloc(MEBIBYTE);
  for (let sent = 0; sent < bytes; sent += block.length) {
    if (!stream.write(block)) await once(stream, "drain");
  }
  stream.end();
}

async function rate(bytes: number, action: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await action();
  return bytes / MEBIBYTE / ((performance.now() - start) / 1000);
}

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type ConnectEvent, connectSsh2 } from "../../src/ssh/ssh2-connect.ts";
import type { RuntimeError } from "../../src/wire/errors.ts";
import { connect, output, publicKey, resolve, temporaryFolder } from "../ssh/support.ts";
import { type HostLines, JumpHosts } from "../support/jump-hosts.ts";
import { isRunning } from "../support/processes.ts";
import { describeReal } from "../support/requirements.ts";
import { freePort } from "../support/sshd.ts";

let hosts: JumpHosts;
let names = 0;

/** The target of options with an ssh_config that has these changes. */
async function targetOf(changes: Record<string, HostLines>, options: Record<string, unknown> = {}) {
  names += 1;
  const sshConfigFile = hosts.config(changes, `ssh_config-${names}`);
  return await resolve({ host: "inner", sshConfigFile, ...options });
}

async function failureOf(changes: Record<string, HostLines>, options: Record<string, unknown> = {}) {
  const attempt = targetOf(changes, options).then((target) => connect(target));
  return (await attempt.catch((error: unknown) => error)) as RuntimeError;
}

describeReal("jump hosts", () => {
  beforeAll(async () => {
    hosts = await JumpHosts.start({ outer: {}, middle: {}, inner: {} });
  });
  afterAll(() => hosts?.stop());

  it.each([
    ["one", "middle", ["middle"]],
    ["two", "outer,middle", ["outer", "middle"]],
    ["an ssh URI", "ssh://outer", ["outer"]],
    ["tokens", "%%h%n%h".replace(/.*/, "middle"), ["middle"]],
  ])("go over %s", async (_, proxyJump, visited) => {
    const before = ["outer", "middle", "inner"].map((alias) => hosts.logins(alias));
    const events: ConnectEvent[] = [];
    const carrier = await connect(await targetOf({ inner: { ProxyJump: proxyJump } }), {
      trace: (event) => events.push(event),
    });
    expect(await output(carrier, "echo $SSH_CONNECTION | cut -d' ' -f4")).toMatchObject({
      stdout: `${hosts.get("inner").port}\n`,
    });
    const grown = ["outer", "middle", "inner"].filter((alias, index) => hosts.logins(alias) > before[index]!);
    expect(grown).toEqual([...visited, "inner"]);
    const ports = [...visited, "inner"].map((alias) => `127.0.0.1:${hosts.get(alias).port}`);
    expect(events.map(({ step, name }) => `${step} ${name.split("@")[1]}`)).toEqual(
      ports.flatMap((port) => ["transport", "host-key", "login"].map((step) => `${step} ${port}`)),
    );
  });
});

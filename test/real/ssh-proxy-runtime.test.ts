import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { BuildHost, failureCode, outputOf } from "../support/build-host.ts";
import { JumpHosts } from "../support/jump-hosts.ts";
import { isRunning, untilGone } from "../support/processes.ts";
import { describeReal } from "../support/requirements.ts";

const PIPE = `${process.execPath} ${resolve(import.meta.dirname, "../fixtures/tcp-pipe.mjs")} %h %p`;

describeReal("the runtime over a jump host", () => {
  let host: BuildHost;
  let hops: JumpHosts;
  beforeAll(async () => {
    [host, hops] = await Promise.all([BuildHost.start(), JumpHosts.start({ outer: {}, middle: {} })]);
  });
  afterAll(async () => {
    await host?.stop();
    await hops?.stop();
  });

  it("makes a workspace and runs commands in it, over one login at each host", async () => {
    const client = host.client({ proxyJump: "outer,middle", sshConfigFile: hops.config({}) });
    await client.create("jumped", { kind: "directory", path: host.emptyFolder() });
    const outputs = await Promise.all(
      Array.from({ length: 4 }, (_, index) => outputOf(client, "jumped", ["echo", `command ${index}`])),
    );
    expect(outputs).toEqual(["command 0", "command 1", "command 2", "command 3"]);
    expect([hops.logins("outer"), hops.logins("middle"), host.logins()]).toEqual([1, 1, 1]);
  });

  it.each(["outer", "middle"])("goes on after a hop has died (%s)", async (dying) => {
    const client = host.client({ proxyJump: "outer,middle", sshConfigFile: hops.config({}) });
    const workspace = host.newName();
    await client.create(workspace, { kind: "directory", path: host.emptyFolder() });
    const exec = client.exec(workspace, { argv: ["sh", "-c", "echo before; read line; echo $line; exit 7"] });
    await exec.outputContains("before");
    const logins = hops.logins("middle");
    hops.get(dying).killSessions();
    exec.stdin.end("after\n");
    const result = await exec.result();
    expect(result).toMatchObject({ code: 7, stdout: Buffer.from("before\nafter\n") });
    expect(hops.logins("middle")).toBe(logins + 1);
  });

  it("says which hop cannot be trusted", async () => {
    const sshConfigFile = hops.config({ middle: { UserKnownHostsFile: "none" } });
    const client = host.client({ proxyJump: "outer,middle", sshConfigFile });
    const refused = await client.operation(["inspect", "--workspace-id", "jumped"]);
    expect(failureCode(refused)).toBe("host-key-unknown");
    expect(refused.stderr).toMatch(/^Jump host middle: /);
  });

  it("goes over a ProxyCommand, and tells its reason when it fails", async () => {
    const options = { host: "target", port: undefined, user: undefined };
    const block = { alias: "target", HostName: host.sshd.host, Port: String(host.sshd.port), User: host.sshd.user };
    const via = (ProxyCommand: string) => ({
      ...options,
      sshConfigFile: hops.config({ outer: { ...block, ProxyCommand } }),
    });
    const pidFile = host.path("proxy.pid");
    const client = host.client(via(`sh -c 'echo $$ > ${pidFile}; ${PIPE}; sleep 600'`));
    const workspace = host.newName();
    await client.create(workspace, { kind: "directory", path: host.emptyFolder() });
    expect(await outputOf(client, workspace, ["echo", "through"])).toBe("through");
    const pid = Number(readFileSync(pidFile, "utf8"));
    expect(isRunning(pid)).toBe(true);
    expect(await client.run(["broker", "stop"])).toMatchObject({ code: 0 });
    await untilGone(pid);

    const broken = host.client(via("sh -c 'echo no ticket >&2; exit 1'"));
    const refused = await broken.operation(["inspect", "--workspace-id", workspace]);
    expect(failureCode(refused)).toBe("proxy-failed");
    expect(refused.stderr).toContain("no ticket");
  });
});

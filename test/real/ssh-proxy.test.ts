import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import type { ConnectEvent } from "../../src/ssh/connect-options.ts";
import { connectSsh2 } from "../../src/ssh/ssh2-connect.ts";
import { RuntimeError } from "../../src/wire/errors.ts";
import { connect, output, publicKey, resolve, temporaryFolder } from "../ssh/support.ts";
import { startDelayingProxy } from "../support/delaying-proxy.ts";
import { type HostLines, JumpHosts } from "../support/jump-hosts.ts";
import { describeReal } from "../support/requirements.ts";
import { freePort } from "../support/sshd.ts";

const ALIASES = ["outer", "middle", "inner"];

describeReal("jump hosts", () => {
  let hosts: JumpHosts;
  beforeAll(async () => {
    hosts = await JumpHosts.start({ outer: {}, middle: {}, inner: {}, closed: { config: ["AllowTcpForwarding no"] } });
  });
  afterAll(() => hosts?.stop());

  const targetOf = (changes: Record<string, HostLines>, options: Record<string, unknown> = {}) =>
    resolve({ host: "inner", sshConfigFile: hosts.config(changes), ...options });
  const failureOf = async (changes: Record<string, HostLines>, options: Record<string, unknown> = {}) => {
    const error = await targetOf(changes, options)
      .then((target) => connect(target))
      .catch((caught: unknown) => caught);
    if (!(error instanceof RuntimeError)) throw new Error("It did not fail", { cause: error });
    return error;
  };
  const logins = () => ALIASES.map((alias) => hosts.logins(alias));
  const address = (alias: string) => `127.0.0.1:${hosts.get(alias).port}`;
  const fileOf = (...lines: string[]) => {
    const file = join(temporaryFolder(), "known_hosts");
    writeFileSync(file, lines.map((line) => `${line}\n`).join(""));
    return file;
  };

  it.each<[string, Record<string, HostLines>, string[]]>([
    ["one host", { inner: { ProxyJump: "middle" } }, ["middle"]],
    ["two hosts", { inner: { ProxyJump: "outer,middle" } }, ["outer", "middle"]],
    ["an ssh URI", { inner: { ProxyJump: "ssh://outer" } }, ["outer"]],
    ["a name with tokens", { inner: { ProxyJump: "%n.jump" }, middle: { alias: "inner.jump" } }, ["middle"]],
    [
      "a host with a way of its own",
      { inner: { ProxyJump: "middle" }, middle: { ProxyJump: "outer" } },
      ["outer", "middle"],
    ],
    [
      "a host whose own way the list replaces",
      { inner: { ProxyJump: "outer,middle" }, middle: { ProxyJump: "nowhere.invalid" } },
      ["outer", "middle"],
    ],
    [
      "a host with a ProxyCommand",
      {
        inner: { ProxyJump: "middle" },
        middle: { ProxyCommand: `${process.execPath} test/fixtures/tcp-pipe.mjs %h %p` },
      },
      ["middle"],
    ],
  ])("go over %s", async (_, changes, visited) => {
    const before = logins();
    const events: ConnectEvent[] = [];
    const carrier = await connect(await targetOf(changes), { trace: (event) => events.push(event) });
    expect(await output(carrier, "echo $SSH_CONNECTION | cut -d' ' -f4")).toMatchObject({
      stdout: `${hosts.get("inner").port}\n`,
    });
    const bulk = await output(carrier, "head -c 6000000 /dev/zero; cat | wc -c", Buffer.alloc(6_000_000));
    expect(bulk.stdout.slice(6_000_000)).toBe("6000000\n");
    expect(ALIASES.filter((_, index) => logins()[index]! > before[index]!)).toEqual([...visited, "inner"]);
    expect(events.map(({ step, name }) => `${step} ${name.split("@")[1]}`)).toEqual(
      [...visited, "inner"].flatMap((alias) =>
        ["transport", "host-key", "login"].map((step) => `${step} ${address(alias)}`),
      ),
    );
  });

  it("take nothing from the target's options but the policy and the limits", async () => {
    const { user, identityFile, knownHostsFile, port } = hosts.get("inner");
    const none = { IdentityFile: "none", UserKnownHostsFile: "none", Port: "1", User: "nobody" };
    const options = { user, port, identityFile, knownHostsFile, identitiesOnly: true, proxyJump: "outer,middle" };
    const target = await targetOf(
      { inner: none },
      { ...options, connectTimeoutMs: 9_000, hostKeyPolicy: "accept-new" },
    );
    expect(target.jump).toMatchObject({
      alias: "middle",
      identityFiles: [hosts.get("middle").identityFile],
      userKnownHostsFiles: [hosts.get("middle").knownHostsFile],
      connectTimeoutMs: 9_000,
      hostKeyPolicy: "accept-new",
      jump: { alias: "outer", identityFiles: [hosts.get("outer").identityFile] },
    });
    expect(await connect(target)).toBeDefined();
  });

  it("use an identity of their own, and are offered no other", async () => {
    const mark = hosts.get("middle").log().length;
    await connect(await targetOf({ inner: { ProxyJump: "middle" } }));
    expect(hosts.get("middle").log().slice(mark)).not.toMatch(/Failed publickey/);
    const error = await failureOf({
      inner: { ProxyJump: "middle" },
      middle: { IdentityFile: hosts.get("inner").identityFile },
    });
    expect(error).toMatchObject({
      code: "authentication-failed",
      message: expect.stringMatching(`^Jump host middle: \\S+@${address("middle")} accepted no key`),
    });
  });

  it.each(["outer", "middle"])("are refused when their key is unknown or another one (%s)", async (bad) => {
    const jump = { inner: { ProxyJump: "outer,middle" } };
    const before = logins();
    const name = `[127.0.0.1]:${hosts.get(bad).port}`;
    const unknown = await failureOf({ ...jump, [bad]: { UserKnownHostsFile: fileOf() } });
    expect(unknown).toMatchObject({
      code: "host-key-unknown",
      message: expect.stringContaining(`Jump host ${bad}: The host key of ${name} is not known`),
    });
    const file = fileOf(`${name} ${publicKey().line}`);
    const changed = await failureOf({ ...jump, [bad]: { UserKnownHostsFile: file } }, { hostKeyPolicy: "accept-new" });
    expect(changed).toMatchObject({
      code: "host-key-changed",
      message: expect.stringContaining(`Jump host ${bad}: `),
      remedy: expect.stringContaining(file),
    });
    const reached = ALIASES.slice(0, ALIASES.indexOf(bad));
    expect(ALIASES.filter((_, index) => logins()[index]! > before[index]!)).toEqual(reached);
  });

  it("are filed under their own names with accept-new, from ssh_config too", async () => {
    const files = { outer: fileOf(), inner: fileOf() };
    const accepting = (file: string) => ({ UserKnownHostsFile: file, StrictHostKeyChecking: "accept-new" });
    await connect(
      await targetOf({ inner: { ...accepting(files.inner), ProxyJump: "outer" }, outer: accepting(files.outer) }),
    );
    for (const alias of ["outer", "inner"] as const) {
      const [key] = hosts.get(alias).hostPublicKeys[0]!.split(" ").slice(1);
      expect(readFileSync(files[alias], "utf8")).toMatch(
        new RegExp(`^\\[127\\.0\\.0\\.1\\]:${hosts.get(alias).port} \\S+ `),
      );
      expect(readFileSync(files[alias], "utf8")).toContain(key);
    }
  });

  it("say why they do not reach the next host", async () => {
    const jump = { ProxyJump: "middle" };
    expect(await failureOf({ inner: { ProxyJump: "closed" } })).toMatchObject({
      code: "forwarding-refused",
      message: expect.stringContaining(`:${hosts.get("closed").port} does not forward connections to 127.0.0.1`),
    });
    const port = await freePort();
    expect(await failureOf({ inner: { ...jump, Port: String(port) } })).toMatchObject({
      code: "connection-refused",
      message: expect.stringMatching(`127.0.0.1 refuses connections on port ${port} from the jump host \\S+`),
    });
    expect(await failureOf({ inner: { ...jump, HostName: "build.invalid" } })).toMatchObject({
      code: "host-unknown",
      message: expect.stringContaining('cannot resolve the host name "build.invalid"'),
    });
    expect(await failureOf({ inner: { ProxyJump: "outer,middle" }, outer: { Port: String(port) } })).toMatchObject({
      code: "connection-refused",
      message: `Jump host outer: 127.0.0.1 refuses connections on port ${port}`,
    });
  });

  it("share one deadline with the target", async () => {
    const silent = createServer((socket) => void socket.resume()).listen(0, "127.0.0.1");
    onTestFinished(() => void silent.close());
    await new Promise((listening) => silent.once("listening", listening));
    const Port = String((silent.address() as { port: number }).port);
    for (const changes of [
      { inner: { ProxyJump: "outer,middle", Port } },
      { inner: { ProxyJump: "outer,middle" }, middle: { Port } },
    ]) {
      const begun = performance.now();
      const error = await failureOf(changes, { connectTimeoutMs: 1_000 });
      expect(error).toMatchObject({ code: "connection-timeout", message: expect.stringContaining(`:${Port} did not`) });
      expect(performance.now() - begun).toBeLessThan(3_000);
    }
  });

  it("are left when the target's connection ends, and when it fails", async () => {
    const hop = hosts.get("outer");
    const left = () => expect.poll(() => hop.log().slice(mark)).toMatch(/Disconnected from user/);
    let mark = hop.log().length;
    const carrier = await connectSsh2(await targetOf({ inner: { ProxyJump: "outer" } }));
    carrier.close();
    expect(await carrier.closed).toBeUndefined();
    await left();

    mark = hop.log().length;
    await failureOf({ inner: { ProxyJump: "outer", UserKnownHostsFile: fileOf() } });
    await expect.poll(() => hop.log().slice(mark)).toMatch(/Disconnected from user|Connection (?:closed|reset)/);
  });

  it.each(["outer", "middle"])("take the target's connection along when they die (%s)", async (dying) => {
    const carrier = await connect(await targetOf({ inner: { ProxyJump: "outer,middle" } }));
    const command = await carrier.run("echo ready; exec cat");
    command.stderr.resume();
    command.stdout.resume();
    const begun = performance.now();
    hosts.get(dying).killSessions();
    expect(await carrier.closed).toMatchObject({ code: "connection-lost" });
    expect(performance.now() - begun).toBeLessThan(2_000);
    expect(await command.exit).toEqual({ code: null, signal: null });
  });

  it("are noticed when their link goes dead", async () => {
    const proxy = await startDelayingProxy({ target: hosts.get("outer"), oneWayDelayMs: 0 });
    onTestFinished(() => proxy.stop());
    const known = fileOf(`[127.0.0.1]:${proxy.port} ${hosts.get("outer").hostPublicKeys[0]}`);
    const changes = {
      inner: { ProxyJump: "outer", ServerAliveInterval: "1", ServerAliveCountMax: "1" },
      outer: { Port: String(proxy.port), UserKnownHostsFile: known },
    };
    const carrier = await connect(await targetOf(changes));
    expect(await output(carrier, "echo ok")).toMatchObject({ stdout: "ok\n" });
    proxy.blackhole(true);
    expect(await carrier.closed).toMatchObject({
      code: "connection-lost",
      message: expect.stringContaining("no answer for 1000 ms"),
    });
  });

  it.each<[string, Record<string, HostLines>, string]>([
    ["lead back to the host", { inner: { ProxyJump: "middle" }, middle: { ProxyJump: "inner" } }, "circle"],
    ["lead to themselves", { inner: { ProxyJump: "middle" }, middle: { ProxyJump: "middle" } }, "circle"],
    ["have names that look like options", { inner: { ProxyJump: "middle" }, middle: { HostName: "-oX" } }, "HostName"],
    ["have users that look like options", { inner: { ProxyJump: "middle" }, middle: { User: "-l" } }, "User"],
    ["have shell syntax as a user", { inner: { ProxyJump: "middle" }, middle: { User: "a$(id)" } }, "User"],
    ["have shell syntax as a name", { inner: { ProxyJump: "a$(id)" } }, "ProxyJump"],
    [
      "are too many",
      { inner: { ProxyJump: Array.from({ length: 9 }, (_, index) => `hop${index}`).join(",") } },
      "at most 8",
    ],
  ])("are not tried when they %s", async (_, changes, named) => {
    const before = logins();
    expect(await failureOf(changes)).toMatchObject({
      code: "option-invalid",
      message: expect.stringContaining(named),
    });
    expect(logins()).toEqual(before);
  });
});

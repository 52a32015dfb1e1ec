import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { BuildHost, namesIn } from "../support/build-host.ts";
import { describeReal } from "../support/requirements.ts";
import type { RuntimeClient } from "../support/runtime.ts";
import { type SshAgent, startSshAgent } from "../support/ssh-agent.ts";
import { generateKey, type SshdOptions } from "../support/sshd.ts";
import { Terminal } from "../support/terminal.ts";

const KEY = "a forwarded key";

describeReal("agent forwarding", () => {
  let agent: SshAgent;
  let stock: BuildHost;
  const hosts: BuildHost[] = [];
  beforeAll(async () => {
    agent = await startSshAgent();
    stock = await start();
    agent.add(generateKey(stock.path("key"), "ed25519", "", KEY));
  });
  afterAll(async () => {
    for (const host of hosts) await host.stop();
    await agent?.stop();
  });

  async function start(options: SshdOptions = {}): Promise<BuildHost> {
    const host = await BuildHost.start(options);
    hosts.push(host);
    return host;
  }

  interface Opened {
    client: RuntimeClient;
    /** The environment of its workspace `w`. */
    env: Record<string, string>;
    /** Names in the private folder of the agent's socket that lead to a forwarded agent. */
    links: () => string[];
  }

  /** A root of its own on the host, and a caller with this SSH_AUTH_SOCK. */
  async function open(host: BuildHost, options: { forwardAgent?: boolean } = {}, authSock = agent.socket) {
    const root = host.path(host.newName("root"));
    const client = host.client({ root, forwardAgent: true, ...options }, { env: { SSH_AUTH_SOCK: authSock } });
    const { state } = await client.create("w", { kind: "directory", path: host.emptyFolder() });
    const links = () => namesIn(join(root, "run")).filter((name) => name.endsWith(".auth"));
    return { client, env: state.lifecycleEnvironment, links } satisfies Opened;
  }

  async function listedKeys({ client, env }: Opened): Promise<string> {
    return (await client.execute("w", ["ssh-add", "-l"], { env })).stdout.toString("utf8");
  }

  /** A shell that runs all the while lists the keys before and after each of three cuts. */
  async function expectKeysAcrossCuts(host: BuildHost, { client, env }: Opened): Promise<void> {
    const terminal = new Terminal(client, "w", ["sh"], { env: { ...env, PS1: "> " } });
    for (let cut = 0; cut < 3; cut += 1) {
      terminal.type("ssh-add -l\n");
      await terminal.sees(KEY);
      host.sshd.killSessions();
      await client.inspect("w");
    }
    terminal.type("exit\n");
    expect((await terminal.result()).code).toBe(0);
  }

  it("gives workloads the caller's keys, and a running shell has them over every new connection", async () => {
    const opened = await open(stock);
    expect(await listedKeys(opened)).toContain(KEY);
    await expectKeysAcrossCuts(stock, opened);
    expect(opened.links()).toHaveLength(1);
    await opened.client.run(["broker", "stop"]);
    await expect.poll(opened.links).toEqual([]);
  });

  it("works where the server forwards no streams and allows one session", async () => {
    const host = await start({ config: ["AllowStreamLocalForwarding no", "MaxSessions 1"] });
    const opened = await open(host);
    expect(await listedKeys(opened)).toContain(KEY);
    await expectKeysAcrossCuts(host, opened);
  });

  it("works where the server allows one session, also for an agent of ours that has to be started again", async () => {
    const host = await start({ config: ["MaxSessions 1"] });
    const opened = await open(host);
    expect(await listedKeys(opened)).toContain(KEY);
    await host.killAgents(opened.client.options.root as string);
    expect((await opened.client.inspect("w")).state.lifecycleEnvironment.SSH_AUTH_SOCK).toBe(opened.env.SSH_AUTH_SOCK);
    expect(await listedKeys(opened)).toContain(KEY);
  });

  it.each([
    ["AllowAgentForwarding no"],
    ["AllowAgentForwarding no", "MaxSessions 1"],
    ["DisableForwarding yes", "MaxSessions 1"],
  ])("changes nothing else where the server forbids it: %s %s", async (...config) => {
    const opened = await open(await start({ config: config.filter((line) => line !== undefined) }));
    expect(opened.env.SSH_AUTH_SOCK).toBeUndefined();
    expect(opened.links()).toEqual([]);
    expect((await opened.client.execute("w", ["echo", "works"])).stdout.toString("utf8")).toBe("works\n");
    const log = readFileSync(join(opened.client.brokerFolder, "broker.log"), "utf8");
    expect(log).toMatch(/get no ssh agent: the server does not forward it \(AllowAgentForwarding\)\n$/);
  });

  it("does not happen without the option, or without an agent here", async () => {
    for (const opened of [await open(stock, { forwardAgent: false }), await open(stock, {}, "")]) {
      expect(opened.env.SSH_AUTH_SOCK).toBeUndefined();
      expect(opened.links()).toEqual([]);
      const { stderr } = await opened.client.execute("w", ["ssh-add", "-l"], { env: opened.env });
      expect(stderr.toString("utf8")).toMatch(/^Could not open a connection to your authentication agent/);
    }
    const { client } = await open(stock, {}, "");
    expect(readFileSync(join(client.brokerFolder, "broker.log"), "utf8")).toContain(
      "get no ssh agent: there is none here (SSH_AUTH_SOCK is not set)",
    );
  });
});

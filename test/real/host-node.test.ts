import {
  chmodSync,
  copyFileSync,
  existsSync,
  linkSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  rmSync,
  symlinkSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { ACCOUNT_HOST, type Account, addAccount } from "../support/accounts.ts";
import { BuildHost, failureCode } from "../support/build-host.ts";
import { describePrivileged } from "../support/requirements.ts";
import type { RuntimeClient } from "../support/runtime.ts";

/** How node is found on a host whose PATH does not lead to it. */
describePrivileged("node on the host", () => {
  /** Everything that a PATH usually leads to, but no node. */
  const tools = mkdtempSync(join(tmpdir(), "psr-tools-"));
  let host: BuildHost;
  let account: Account;
  let client: RuntimeClient;

  beforeAll(async () => {
    chmodSync(tools, 0o755);
    for (const folder of ["/usr/bin", "/bin"]) {
      for (const name of readdirSync(folder)) {
        if (!/^(?:node|nodejs|npm|npx|corepack)$/.test(name) && !existsSync(join(tools, name))) {
          symlinkSync(join(folder, name), join(tools, name));
        }
      }
    }
    host = await BuildHost.start({ config: [...ACCOUNT_HOST.config, `SetEnv PATH=${tools}`] });
  });
  afterAll(async () => {
    rmSync(tools, { recursive: true, force: true });
    await host?.stop();
  });

  function newAccount(): void {
    account = addAccount(host, { shell: "/bin/dash" });
    client = host.client(account.options);
  }
  afterEach(async () => {
    await client.close();
    await account.remove();
  });

  /** A node that is told apart from all others by its path. */
  function putNode(path: string): string {
    const target = join(account.home, path);
    account.write(`${path}.place`, "");
    try {
      linkSync(process.execPath, target);
    } catch {
      copyFileSync(process.execPath, target);
    }
    return target;
  }

  const usedNode = () => readlinkSync(`/proc/${host.agentPids(account.root)[0]}/exe`);

  it("is the one that the options name", async () => {
    newAccount();
    const named = putNode("named/node");
    putNode(".nvm/versions/node/v20.1.0/bin/node");
    await client.with({ options: { node: named } }).inspect("w");
    expect(usedNode()).toBe(named);
  });

  it("may be named relative to the home folder", async () => {
    newAccount();
    const named = putNode("it's named/node");
    await client.with({ options: { node: "~/it's named/node" } }).inspect("w");
    expect(usedNode()).toBe(named);
  });

  it("is found where only a login shell finds it, whatever that prints", async () => {
    newAccount();
    const own = putNode("my node/bin/node");
    account.write(".profile", 'echo "/bin/false"; PATH="$HOME/my node/bin:$PATH"; printf "no end of line"\n');
    await client.inspect("w");
    expect(usedNode()).toBe(own);
  });

  it("is found in the folders of a version manager, past one that is too old", async () => {
    newAccount();
    account.write("old/node", "#!/bin/sh\necho 16\n", 0o755);
    account.write(".profile", `PATH="$HOME/old:${tools}"\n`);
    const managed = putNode(".nvm/versions/node/v20.1.0/bin/node");
    await client.inspect("w");
    expect(usedNode()).toBe(managed);
  });

  it("is searched for without end only as long as the login shell takes to be given up", async () => {
    newAccount();
    const managed = putNode(".nvm/versions/node/v20.1.0/bin/node");
    account.write(".profile", "sleep 30\n");
    await client.inspect("w");
    expect(usedNode()).toBe(managed);
    expect((await client.inspect("w")).status).toBe("missing");
  });
});

describePrivileged("no node on the host", () => {
  it("is said", async () => {
    const places = [process.execPath, "/usr/bin/node", "/usr/local/bin/node", "/snap/bin/node"].filter(existsSync);
    const hidden = places.map((path) => `mount --bind /dev/null ${path}`).join(" && ");
    const command = `unshare --mount /bin/sh -c "${hidden} && HOME=/nowhere PATH=/usr/bin:/bin exec /bin/sh"`;
    const host = await BuildHost.start({ config: [`ForceCommand ${command}`] });
    try {
      const result = await host.client().operation(["inspect", "--workspace-id", "w"]);
      expect(failureCode(result)).toBe("node-missing");
      expect(host.listing()).toEqual([]);
    } finally {
      await host.stop();
    }
  });
});

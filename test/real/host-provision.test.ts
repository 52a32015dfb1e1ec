import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { BuildHost, failureCode, namesIn } from "../support/build-host.ts";
import { describePrivileged } from "../support/requirements.ts";
import type { RuntimeClient } from "../support/runtime.ts";

/** The option provisionNode, on a host that has no node: every place where this machine has one is hidden from it. */
describePrivileged("a host without node", () => {
  const PLATFORM = `${process.platform}-${process.arch}`;
  /** The home of whoever runs Paseo, which has the cache of nodes. */
  let home: string;
  let host: BuildHost;
  let client: RuntimeClient;
  let root: string;

  beforeAll(async () => {
    const places = [process.execPath, "/usr/bin/node", "/usr/local/bin/node", "/snap/bin/node"].filter(existsSync);
    const hidden = places.map((path) => `mount --bind /dev/null ${path}`).join(" && ");
    const command = `unshare --mount /bin/sh -c "${hidden} && HOME=/nowhere PATH=/usr/bin:/bin exec /bin/sh"`;
    host = await BuildHost.start({ config: [`ForceCommand ${command}`] });
  });
  afterAll(() => host?.stop());

  function newClient(options: Record<string, unknown> = {}): void {
    home = mkdtempSync(join(tmpdir(), "psr-home-"));
    root = host.path(host.newName("root"));
    client = host.client({ root, provisionNode: true, ...options }, { env: { HOME: home } });
  }
  afterEach(async () => {
    await client.close();
    rmSync(home, { recursive: true, force: true });
  });

  const cache = (...parts: string[]) => join(home, ".cache", "paseo-ssh-runtime", "node", PLATFORM, ...parts);
  const sha256 = (path: string) => createHash("sha256").update(readFileSync(path)).digest("hex");
  const sent = () => namesIn(join(root, "node"));
  const inspect = () => client.operation(["inspect", "--workspace-id", "w"]);

  it("gets this machine's, runs everything with it, and has it the next time", async () => {
    newClient();
    const source = host.emptyFolder();
    writeFileSync(join(source, "file"), "content\n");
    const input = client.createInput("w", { kind: "directory", path: source });
    writeFileSync(host.path("request.json"), JSON.stringify(client.request(input)));
    const words = [process.execPath, client.launcher, "create", "--workspace-id", "w"].map((word) => `'${word}'`);
    const command = `${words.join(" ")} <'${host.path("request.json")}' >/dev/null`;
    const shown = execFileSync("script", ["--quiet", "--return", "--command", command, "/dev/null"], {
      env: client.env,
      encoding: "utf8",
    });
    const name = client.options.host;
    const size = `${Math.round(statSync(process.execPath).size / 1e6)} MB`;
    const parts = ["", ": 25 %", ": 50 %", ": 75 %", ": 100 %"];
    expect(shown.split("\r\n").filter((line) => line.startsWith("Putting a node"))).toEqual(
      parts.map((part) => `Putting a node on ${name} (${size})${part}`),
    );
    const own = join(root, "node", sha256(process.execPath), "node");
    expect(sent()).toEqual([sha256(process.execPath)]);
    expect([own, join(root, "node")].map((path) => statSync(path).mode & 0o777)).toEqual([0o700, 0o700]);
    expect(readlinkSync(`/proc/${host.agentPids(root)[0]}/exe`)).toBe(own);
    const pipes = await client.execute("w", ["cat", "file"]);
    expect([pipes.code, pipes.stdout.toString("utf8")]).toEqual([0, "content\n"]);
    const terminal = client.exec("w", { argv: ["cat", "file"], stdio: { kind: "pty", rows: 2, cols: 9 } });
    expect((await terminal.result()).stdout.toString("utf8")).toBe("content\r\n");

    const { ino } = statSync(own);
    await host.killAgents(root);
    const again = await inspect();
    expect([again.code, again.stderr]).toEqual([0, ""]);
    expect(statSync(own).ino).toBe(ino);
  });

  it("gets the one that lies in the cache for it, when there is one", async () => {
    newClient();
    const official = cache("node-v20.1.0-linux-x64", "bin");
    mkdirSync(official, { recursive: true });
    // Told apart from this machine's by its hash.
    writeFileSync(join(official, "node"), Buffer.concat([readFileSync(process.execPath), Buffer.from("official")]));
    expect((await inspect()).code).toBe(0);
    expect(sent()).toEqual([sha256(join(official, "node"))]);
  });

  it("says so when the one from here does not run there, with the reason", async () => {
    newClient();
    mkdirSync(cache(), { recursive: true });
    writeFileSync(cache("node"), "#!/bin/sh\necho 'libnode.so.115: cannot open shared object file' >&2\nexit 127\n");
    const result = await inspect();
    const expected = `${client.options.host} has no node, and the one that was sent there from ${cache("node")} does not run there (it said: libnode.so.115: cannot open shared object file). Install Node 18 or newer there, or put the node of an official build here: ${cache("node")}. [node-missing]\n`;
    expect(
      result.stderr
        .split("\n")
        .filter((line) => !line.includes("Putting"))
        .join("\n"),
    ).toBe(expected);
    expect([result.code, result.stdout]).toEqual([1, ""]);
  });

  it("is an error that says what to do when the option is off, and when it names a node", async () => {
    newClient({ provisionNode: false });
    const off = await inspect();
    expect(off.stderr).toBe(
      `No node was found on ${client.options.host}. Install Node 18 or newer there, name its path with the option node, or set the option provisionNode. [node-missing]\n`,
    );
    const named = await client
      .with({ options: { provisionNode: true, node: "/opt/none" } })
      .operation(["inspect", "--workspace-id", "w"]);
    expect(failureCode(named)).toBe("node-missing");
    expect(named.stderr).toContain(`There is no node at /opt/none on ${client.options.host}.`);
    expect(existsSync(root)).toBe(false);
  });
});

import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { fingerprint } from "../../src/ssh/host-key.ts";
import { knownHostKeys } from "../../src/ssh/known-hosts.ts";
import { appendHostKey } from "../../src/ssh/known-hosts-append.ts";
import { randomart } from "../../src/ssh/randomart.ts";
import { publicKey, temporaryFolder } from "../ssh/support.ts";
import { BuildHost, failureCode } from "../support/build-host.ts";
import { bundleProgram } from "../support/bundle.ts";
import { LocalTerminal } from "../support/local-terminal.ts";
import { describePrivileged, describeReal } from "../support/requirements.ts";
import { LAUNCHER, type RuntimeClient } from "../support/runtime.ts";
import { generateKey } from "../support/sshd.ts";

describeReal("paseo-ssh-runtime trust", () => {
  let host: BuildHost;
  let client: RuntimeClient;
  let key: string;
  let print: string;
  beforeAll(async () => {
    host = await BuildHost.start();
    client = host.client();
    key = host.sshd.hostPublicKeys[0]!.split(" ").slice(0, 2).join(" ");
    print = fingerprint(Buffer.from(key.split(" ")[1]!, "base64"));
  });
  afterAll(() => host?.stop());

  const name = () => `[127.0.0.1]:${host.sshd.port}`;

  function knownHosts(...lines: string[]): string {
    const file = join(temporaryFolder(), "known_hosts");
    writeFileSync(file, lines.map((line) => `${line}\n`).join(""));
    return file;
  }

  /** The command line for the server, with nothing of the machine's own ssh configuration. */
  function command(knownHostsFile: string, sshConfig = ""): string[] {
    const config = join(temporaryFolder(), "ssh_config");
    writeFileSync(config, sshConfig);
    const options = ["--option", `knownHostsFile=${knownHostsFile}`, "--option", `sshConfigFile=${config}`];
    return ["trust", `127.0.0.1:${host.sshd.port}`, ...options];
  }

  it("files a key whose fingerprint was given, and finds it known the next time", async () => {
    const file = knownHosts();
    const mark = host.sshd.log().length;
    const first = await client.run([...command(file), "--fingerprint", print]);
    expect(first).toMatchObject({ code: 0, stderr: "" });
    expect(first.stdout).toContain(
      `The host key of ${name()} is not known yet: ssh-ed25519 ${print}\n+--[ED25519 256]--+\n`,
    );
    expect(first.stdout).toMatch(new RegExp(`Filed in ${file}\\.\n$`));
    expect(readFileSync(file, "utf8")).toBe(`${name()} ${key}\n`);

    const second = await client.run(command(file));
    expect(second).toMatchObject({ code: 0, stderr: "" });
    expect(second.stdout).toBe(`The host key of ${name()} is known already (${file}:1): ssh-ed25519 ${print}\n`);
    expect(readFileSync(file, "utf8")).toBe(`${name()} ${key}\n`);

    // Neither a key nor so much as a user name was sent, up to the end of every connection.
    const ends = () =>
      host.sshd
        .log()
        .slice(mark)
        .match(/^Connection (?:closed|reset) .*\[preauth\]$/gm);
    await expect.poll(() => ends()?.length).toBe(2);
    expect(host.sshd.log().slice(mark)).not.toMatch(/publickey|Accepted|Failed|authenticating user|invalid user/i);
  });

  it("hashes the name where ssh_config says so", async () => {
    const file = knownHosts();
    const args = [...command(file, "HashKnownHosts yes\n"), "--fingerprint", `${print}=`];
    expect(await client.run(args)).toMatchObject({ code: 0, stderr: "" });
    expect(readFileSync(file, "utf8")).toMatch(/^\|1\|\S+\|\S+ ssh-ed25519 /);
    const found = spawnSync("ssh-keygen", ["-F", name(), "-f", file], { encoding: "utf8" });
    expect(found.stdout).toContain(key);
  });

  it("files nothing without a terminal or the fingerprint, and says what to do", async () => {
    const file = knownHosts();
    const result = await client.run(command(file));
    expect(result.code).toBe(1);
    expect(result.stderr).toMatch(new RegExp(`--fingerprint ${print.replaceAll("+", "\\+")}\\. \\[usage\\]\n$`));
    expect(readFileSync(file, "utf8")).toBe("");
  });

  it.each([
    ["another fingerprint", `SHA256:${"A".repeat(43)}`, "host-key-unknown"],
    ["what is no fingerprint", "MD5:00:11", "usage"],
  ])("files nothing for %s", async (_what, given, code) => {
    for (const line of [[], [`${name()} ${key}`]]) {
      const file = knownHosts(...line);
      const before = readFileSync(file, "utf8");
      const { stderr } = await client.run([...command(file), "--fingerprint", given]);
      expect(stderr).toMatch(new RegExp(`\\[${code}\\]\n$`));
      expect(readFileSync(file, "utf8")).toBe(before);
    }
  });

  it.each([
    ["host-key-changed", () => [`${name()} ${publicKey().line}`]],
    ["host-key-revoked", () => [`@revoked * ${key}`]],
    ["host-key-revoked", () => [`${name()} ${key}`, `@revoked ${name()} ${key}`]],
  ])("never overrules %s", async (code, lines) => {
    const file = knownHosts(...lines());
    const before = readFileSync(file, "utf8");
    expect(failureCode(await client.run([...command(file), "--fingerprint", print]))).toBe(code);
    expect(readFileSync(file, "utf8")).toBe(before);
  });

  it("says that the file cannot be written", async () => {
    const file = join(knownHosts(), "below-a-file");
    const { code, stderr } = await client.run([...command(file), "--fingerprint", print]);
    expect([code, stderr]).toEqual([1, expect.stringMatching(/below-a-file.*\[host-key-unknown\]\n$/)]);
  });

  function atTerminal(file: string): LocalTerminal {
    return new LocalTerminal([process.execPath, LAUNCHER, ...command(file)], client.env);
  }

  it.each(["yes\r", "perhaps\ryes\r", "YES\r"])("asks on a terminal, and takes %j", async (answer) => {
    const file = knownHosts();
    const terminal = atTerminal(file);
    await terminal.sees("Trust this key (yes/no)?");
    expect(terminal.screen).toContain(print);
    expect(readFileSync(file, "utf8")).toBe("");
    terminal.type(answer);
    expect(await terminal.ended()).toBe(0);
    expect(readFileSync(file, "utf8")).toBe(`${name()} ${key}\n`);
  });

  it.each(["no\r", "\x04", "\x03"])("files nothing for the answer %j", async (answer) => {
    const file = knownHosts();
    const terminal = atTerminal(file);
    await terminal.sees("Trust this key (yes/no)?");
    terminal.type(answer);
    expect(await terminal.ended()).toBe(1);
    expect(terminal.screen).toContain("[host-key-unknown]");
    expect(readFileSync(file, "utf8")).toBe("");
  });

  it("never contradicts what was filed while the person was thinking", async () => {
    const file = knownHosts();
    const terminal = atTerminal(file);
    await terminal.sees("Trust this key (yes/no)?");
    const other = `${name()} ${publicKey().line}\n`;
    writeFileSync(file, other);
    terminal.type("yes\r");
    expect(await terminal.ended()).toBe(1);
    expect(terminal.screen).toContain("[host-key-changed]");
    expect(readFileSync(file, "utf8")).toBe(other);
  });

  it("is what a failed operation recommends, in a form that a shell understands", async () => {
    const folder = join(temporaryFolder(), "it's a folder");
    mkdirSync(folder);
    const knownHostsFile = join(folder, "known_hosts");
    const unknown = client.with({ options: { knownHostsFile } });
    const { stderr } = await unknown.operation(["inspect", "--workspace-id", "w"]);
    const [, advice] = /run: paseo-ssh-runtime (trust .*)\. \[host-key-unknown\]\n$/.exec(stderr)!;
    const script = `exec "$0" "$1" ${advice} --fingerprint ${print}`;
    execFileSync("/bin/sh", ["-c", script, process.execPath, LAUNCHER], { env: client.env, stdio: "pipe" });
    expect(await unknown.inspect("w")).toEqual({ status: "missing" });
  });

  it("takes the host from an entry of Paseo's config.json", async () => {
    const config = join(temporaryFolder(), "config.json");
    const options = { ...client.options, knownHostsFile: knownHosts() };
    writeFileSync(config, JSON.stringify({ version: 1, workspaceRuntimes: { farm: { type: "command", options } } }));
    const from = (runtime: string) => ["trust", "--config", config, "--runtime", runtime, "--fingerprint", print];
    expect(await client.run(from("farm"))).toMatchObject({ code: 0, stderr: "" });
    expect(readFileSync(options.knownHostsFile, "utf8")).toBe(`${name()} ${key}\n`);
    expect(failureCode(await client.run(from("barn")))).toBe("option-invalid");
  });

  it.each([
    ["no host", ["trust"], "usage"],
    ["a host and a file", ["trust", "devbox", "--config", "/c", "--runtime", "r"], "usage"],
    ["a file alone", ["trust", "--config", "/c"], "usage"],
    ["a file that is not there", ["trust", "--config", "/nowhere", "--runtime", "r"], "option-invalid"],
    ["an option without a value", ["trust", "devbox", "--option", "port"], "usage"],
    ["an unknown option", ["trust", "devbox", "--option", "prot=22"], "option-unknown"],
    ["a host that looks like an option", ["trust", "--", "-oProxyCommand=true"], "option-invalid"],
  ])("refuses %s", async (_what, args, code) => {
    expect(failureCode(await client.run(args))).toBe(code);
  });
});

describeReal("randomart", () => {
  it("is what ssh-keygen prints", () => {
    const folder = temporaryFolder();
    const ecdsa = [256, 384, 521].map((bits) => {
      const file = join(folder, `ecdsa-${bits}`);
      execFileSync("ssh-keygen", ["-q", "-t", "ecdsa", "-b", String(bits), "-N", "", "-f", file]);
      return readFileSync(`${file}.pub`, "utf8").trim();
    });
    const rsa = readFileSync(`${generateKey(join(folder, "rsa"), "rsa")}.pub`, "utf8").trim();
    const keys = [...Array.from({ length: 40 }, () => publicKey().line), ...ecdsa, rsa];
    const file = join(folder, "keys");
    writeFileSync(file, keys.map((line) => `${line}\n`).join(""));
    const printed = execFileSync("ssh-keygen", ["-lvf", file], { encoding: "utf8" });
    const pictures = printed.split("\n").filter((line) => /^[+|].*[+|]$/.test(line));
    const ours = keys.map((line) => {
      const [type, base64] = line.split(" ");
      return randomart(type!, Buffer.from(base64!, "base64"));
    });
    expect(ours.join("\n").split("\n")).toEqual(pictures);
    for (const line of keys) expect(printed).toContain(fingerprint(Buffer.from(line.split(" ")[1]!, "base64")));
  });
});

describe("filing a host key", () => {
  const writer = bundleProgram("test/fixtures/host-key-writer.ts");

  it("keeps every line of many writers whole", async () => {
    const file = join(temporaryFolder(), "known_hosts");
    const { line, blob } = publicKey();
    writeFileSync(file, `first ${line}`);
    const count = 200;
    const prefixes = ["a", "b", "c", "d"];
    const ends = prefixes.map((prefix) =>
      once(spawn(process.execPath, [writer, file, prefix, String(count), blob.toString("base64")]), "exit"),
    );
    for (const [code] of await Promise.all(ends)) expect(code).toBe(0);
    const lines = readFileSync(file, "utf8")
      .split("\n")
      .filter((text) => text !== "");
    expect(lines).toHaveLength(1 + prefixes.length * count);
    for (const text of lines)
      expect(text).toMatch(new RegExp(`^(?:first|[a-d]-\\d+|\\|1\\|\\S+\\|\\S+) ${line.replaceAll("+", "\\+")}$`));
    for (const prefix of prefixes) {
      for (const number of [0, count - 1]) expect(knownHostKeys([file], `${prefix}-${number}`, 22)).toHaveLength(1);
    }
  });

  it("takes no line for a key that is only a part of one", () => {
    const { line } = publicKey();
    const file = join(temporaryFolder(), "known_hosts");
    for (let length = "alpha ssh-ed25519 ".length; length < `alpha ${line}`.length - 1; length += 1) {
      writeFileSync(file, `alpha ${line}`.slice(0, length));
      expect(knownHostKeys([file], "alpha", 22)).toEqual([]);
    }
  });
});

describePrivileged("filing a host key on a full disk", () => {
  it("leaves no part of a line", () => {
    const folder = join(temporaryFolder(), "disk");
    mkdirSync(folder);
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=8k", "none", folder]);
    onTestFinished(() => void execFileSync("umount", [folder]));
    const file = join(folder, "known_hosts");
    const content = `# ${"x".repeat(8192 - 2 - 1 - 20)}\n`;
    writeFileSync(file, content);
    expect(() => appendHostKey(file, "alpha", 22, publicKey().blob)).toThrow(/disk is full|ENOSPC/);
    expect(readFileSync(file, "utf8")).toBe(content);
  });
});

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { delimiter, join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { expect, it, onTestFinished } from "vitest";
import { startEmbeddedServer } from "../../src/cli/demo/embedded-server.ts";
import { makeKeyPair } from "../../src/cli/demo/keys.ts";
import { processesWith } from "../support/processes.ts";

/** The built demo from its start to its end. Each run has a temporary folder of its own, in which nothing may remain. */

const PACKAGE = resolve(import.meta.dirname, "../..");
const DEADLINE_MS = 60_000;

/** Not below os.tmpdir(), whose path may be too long for the demo to use it. */
function temporaryFolder(): string {
  const folder = mkdtempSync("/tmp/d-");
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A PATH with all programs of this machine but those of SSH. */
function pathWithoutSsh(): string {
  const folder = temporaryFolder();
  for (const place of (process.env.PATH ?? "").split(delimiter).reverse()) {
    for (const name of namesIn(place).filter((program) => !program.startsWith("ssh"))) {
      rmSync(join(folder, name), { force: true });
      symlinkSync(join(place, name), join(folder, name));
    }
  }
  return folder;
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

interface Run {
  child: ChildProcess;
  ended: Promise<{ code: number | null; stdout: string; stderr: string }>;
}

function startDemo(args: string[], env: NodeJS.ProcessEnv, program = join(PACKAGE, "dist/demo.cjs")): Run {
  const { NODE_EXTRA_CA_CERTS: _certificates, ...own } = process.env;
  const child = spawn(process.execPath, [program, ...args], {
    env: { ...own, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const closed = once(child, "close") as Promise<[number | null]>;
  const output = Promise.all([text(child.stdout!), text(child.stderr!)]);
  const ended = Promise.all([closed, output]).then(([[code], [stdout, stderr]]) => ({ code, stdout, stderr }));
  return { child, ended };
}

function expectNothingLeft(temporary: string): void {
  expect(readdirSync(temporary)).toEqual([]);
  expect(processesWith(temporary)).toEqual([]);
}

const event = (type: string, rest = "") => `fd 4  {"type":"${type}","protocolVersion":1${rest}}`;
const SUCCESS = [event("eof"), event("exit", ',"code":0,"signal":null')];

/** What goes through the descriptors, in this order. */
const DESCRIPTORS = [
  'fd 1  {"protocolVersion":1,"modes":["pipes","pty"],"reconcile":true}',
  event("started"),
  "fd 1  ?? not-committed-yet.txt",
  ...SUCCESS,
  event("started"),
  "fd 1  before: 24 80",
  'fd 3  {"type":"resize","protocolVersion":1,"id":1,"rows":40,"cols":132}',
  event("resized", ',"id":1'),
  "fd 0  go on",
  "fd 1  go on",
  "fd 1  after: 40 132",
  ...SUCCESS,
  event("started"),
  "fd 1  This file was never committed, and travelled all the same.",
  ...SUCCESS,
];

function descriptorLines(stdout: string): string[] {
  return stdout
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => /^fd \d {2}/.test(line));
}

it("shows a workspace from its creation to its end on a machine without ssh and sshd", {
  timeout: DEADLINE_MS,
}, async () => {
  const temporary = temporaryFolder();
  const { code, stdout, stderr } = await startDemo([], { TMPDIR: temporary, PATH: pathWithoutSsh() }).ended;
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(descriptorLines(stdout)).toEqual(DESCRIPTORS);
  const table = stdout.slice(stdout.indexOf("What took how long"));
  for (const row of ["describe", "create", "exec git status", "inspect, warm", "destroy", "node -e 0"]) {
    expect(table).toMatch(new RegExp(`${row}.* \\d+(\\.\\d)? ms`));
  }
  expect(stdout).not.toContain("\x1b");
  expectNothingLeft(temporary);
});

it.for(["create:", "before: 24 80"])(
  "leaves nothing when it is interrupted at %s",
  { timeout: DEADLINE_MS },
  async (moment) => {
    const temporary = temporaryFolder();
    const { child, ended } = startDemo([], { TMPDIR: temporary });
    let seen = "";
    child.stdout!.on("data", (chunk: Buffer) => {
      if (seen.includes(moment)) return;
      seen += chunk.toString("utf8");
      if (seen.includes(moment)) child.kill("SIGINT");
    });
    const { code, stderr } = await ended;
    expect({ code, stderr }).toEqual({ code: 130, stderr: "\ninterrupted; cleaning up\n" });
    expectNothingLeft(temporary);
  },
);

it("does the same on a host that options name, and removes its folder there", { timeout: DEADLINE_MS }, async () => {
  const temporary = temporaryFolder();
  const folder = temporaryFolder();
  const home = join(folder, "home");
  mkdirSync(home);
  const userKey = makeKeyPair();
  const hostKey = makeKeyPair();
  const env = { HOME: home, PATH: process.env.PATH };
  const server = await startEmbeddedServer({
    user: "dev",
    userKey: userKey.publicKey,
    hostKey: hostKey.privateText,
    home,
    env,
  });
  onTestFinished(() => server.stop());
  const identityFile = join(folder, "key");
  const knownHostsFile = join(folder, "known_hosts");
  const sshConfigFile = join(folder, "ssh_config");
  writeFileSync(identityFile, userKey.privateText, { mode: 0o600 });
  writeFileSync(sshConfigFile, `Host box\n  HostName 127.0.0.1\n  Port ${server.port}\n`);
  const args = ["--host", "box", "--user", "dev", "--identity-file", identityFile, "--identities-only"];
  const files = ["--ssh-config-file", sshConfigFile, "--known-hosts-file", knownHostsFile];

  const run = startDemo([...args, ...files, "--host-key-policy", "accept-new"], { TMPDIR: temporary });
  const { code, stdout, stderr } = await run.ended;
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(descriptorLines(stdout)).toEqual(DESCRIPTORS);
  expect(readFileSync(knownHostsFile, "utf8")).toContain(hostKey.publicLine);
  expect(readdirSync(home)).toEqual([]);
  expect(processesWith(home)).toEqual([]);
  expectNothingLeft(temporary);
});

it("makes a repository of its own where the package is in none", { timeout: DEADLINE_MS }, async () => {
  const temporary = temporaryFolder();
  const installed = temporaryFolder();
  for (const part of ["bin", "dist"]) cpSync(join(PACKAGE, part), join(installed, part), { recursive: true });
  symlinkSync(join(PACKAGE, "node_modules"), join(installed, "node_modules"));
  const { code, stdout, stderr } = await startDemo([], { TMPDIR: temporary }, join(installed, "dist/demo.cjs")).ended;
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout).toContain("a small git repository, made just now");
  expect(descriptorLines(stdout)).toEqual(DESCRIPTORS);
  expectNothingLeft(temporary);
});

it("says in one sentence what is wrong, and leaves nothing", { timeout: DEADLINE_MS }, async () => {
  const temporary = temporaryFolder();
  const sshConfigFile = join(temporaryFolder(), "ssh_config");
  writeFileSync(sshConfigFile, "");
  // Nobody but root could listen at port 1.
  const args = ["--host", "127.0.0.1", "--port", "1", "--ssh-config-file", sshConfigFile];
  const { code, stderr } = await startDemo(args, { TMPDIR: temporary }).ended;
  expect(code).toBe(1);
  expect(stderr).toMatch(/^\ncreate failed: [^\n]+ \[connection-refused\]\n$/);
  expectNothingLeft(temporary);
});

it.for([
  [["--port", "22"], "usage"],
  [["--hots", "box"], "usage"],
  [["--host", "box", "--port", "none"], "option-invalid"],
] as const)("refuses %s", async ([args, code]) => {
  const result = await startDemo([...args], {}).ended;
  expect(result).toEqual({ code: 1, stdout: "", stderr: expect.stringMatching(new RegExp(`\\[${code}\\]\n$`)) });
});

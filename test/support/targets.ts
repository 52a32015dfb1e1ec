import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { startSshd } from "./sshd.ts";

/** A build host for end-to-end tests. */
export interface TestTarget {
  name: string;
  /** The runtime's `options` that reach it; `extra` are added and win. */
  options(extra?: Record<string, unknown>): Record<string, unknown>;
  /** Gives back what `startTargets` made for it. Containers belong to whoever started them. */
  stop(): Promise<void>;
}

const run = promisify(execFile);
const ACCOUNT = "build";

/**
 * The targets that the environment asks for: with PASEO_TEST_TARGETS=compose those of docker-compose.yml (its first lines
 * say how to start them), otherwise one sshd on loopback with stock limits.
 *
 * @throws Error when PASEO_TEST_TARGETS has another value, or the containers or their key are not there
 */
export async function startTargets(): Promise<TestTarget[]> {
  const wanted = process.env.PASEO_TEST_TARGETS ?? "";
  if (wanted === "compose") return composeTargets();
  if (wanted !== "") throw new Error(`PASEO_TEST_TARGETS is "${wanted}"; it may be "compose" or absent.`);
  const sshd = await startSshd();
  return [{ name: "local", options: (extra) => sshd.options(extra), stop: () => sshd.stop() }];
}

async function composeTargets(): Promise<TestTarget[]> {
  const identityFile = privateKey();
  const [debian, alpine, bastion] = await Promise.all(["debian", "alpine", "bastion"].map(publishedAddress));
  const addresses = { debian: debian!, alpine: alpine!, bastion: bastion!, inner: { host: "inner", port: 22 } };
  const lines = await Promise.all(
    Object.entries(addresses).map(
      async ([service, address]) => `${knownHostsName(address)} ${await hostKey(service)}\n`,
    ),
  );

  const folder = mkdtempSync(join(tmpdir(), "targets-"));
  const knownHostsFile = join(folder, "known_hosts");
  const sshConfigFile = join(folder, "ssh_config");
  writeFileSync(knownHostsFile, lines.join(""));
  // The jump takes its key and known hosts from here: options speak about the target only (as in ssh).
  writeFileSync(sshConfigFile, bastionConfig(addresses.bastion, identityFile, knownHostsFile));

  const common = { user: ACCOUNT, identityFile, identitiesOnly: true, knownHostsFile, sshConfigFile };
  const targets: [string, Record<string, unknown>][] = [
    ["debian", { ...common, ...addresses.debian }],
    ["alpine", { ...common, ...addresses.alpine }],
    ["inner", { ...common, ...addresses.inner, proxyJump: "bastion" }],
  ];
  let users = targets.length;
  return targets.map(([name, own]) => ({
    name,
    options: (extra = {}) => ({ ...own, ...extra }),
    stop: async () => {
      users -= 1;
      if (users === 0) rmSync(folder, { recursive: true, force: true });
    },
  }));
}

function privateKey(): string {
  const publicKey = process.env.PASEO_TEST_AUTHORIZED_KEYS ?? "";
  const file = publicKey.replace(/\.pub$/, "");
  if (file === publicKey || !existsSync(file)) {
    throw new Error("PASEO_TEST_AUTHORIZED_KEYS must name a public key (*.pub) whose private key lies beside it.");
  }
  return file;
}

async function publishedAddress(service: string): Promise<{ host: string; port: number }> {
  const [, host, port] = /^(.+):(\d+)$/.exec(await compose("port", service, "22")) ?? [];
  if (host === undefined) throw new Error(`The target ${service} is not running: docker-compose up -d --build.`);
  return { host, port: Number(port) };
}

/** From inside the container: over the network, a first look at a key proves nothing, and `inner` cannot be reached. */
async function hostKey(service: string): Promise<string> {
  return compose("exec", "-T", service, "cat", "/etc/ssh/ssh_host_ed25519_key.pub");
}

/** The program of its own where there is one, otherwise the plugin of docker. */
async function compose(...args: string[]): Promise<string> {
  const { stdout } = await run("docker-compose", args).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "ENOENT") throw error;
    return run("docker", ["compose", ...args]);
  });
  return stdout.trim();
}

/** sshd(8), SSH_KNOWN_HOSTS FILE FORMAT: a port other than 22 stands after the name in brackets. */
function knownHostsName({ host, port }: { host: string; port: number }): string {
  return port === 22 ? host : `[${host}]:${port}`;
}

function bastionConfig(address: { host: string; port: number }, identityFile: string, knownHostsFile: string): string {
  return [
    "Host bastion",
    `  HostName ${address.host}`,
    `  Port ${address.port}`,
    `  User ${ACCOUNT}`,
    `  IdentityFile "${identityFile}"`,
    "  IdentitiesOnly yes",
    `  UserKnownHostsFile "${knownHostsFile}"`,
    "",
  ].join("\n");
}

import { generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import ssh2, { type Connection } from "ssh2";
import { onTestFinished } from "vitest";
import type { Carrier, CommandExit } from "../../src/ssh/carrier.ts";
import { connect as connectAs } from "../../src/ssh/connect.ts";
import type { ConnectOptions } from "../../src/ssh/connect-options.ts";
import { parseRuntimeOptions, type RuntimeOptions } from "../../src/ssh/options.ts";
import { combine, resolveTarget } from "../../src/ssh/resolve-target.ts";
import type { CallerEnvironment, ConfigQuery, ConfigValues, SshTarget } from "../../src/ssh/target.ts";

/** A folder that the end of the test removes. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "ssh-test-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A fresh public key as in `id_ed25519.pub`, without a comment, and in wire format. */
export function publicKey(type: "ed25519" | "ecdsa" = "ed25519"): { line: string; blob: Buffer } {
  if (type === "ed25519") return ed25519Key();
  const pair = ssh2.utils.generateKeyPairSync("ecdsa", { bits: 256 });
  const line = pair.public.trim();
  return { line, blob: Buffer.from(line.split(" ")[1]!, "base64") };
}

/** ssh2 would lose the first byte of one key in 256, where it is zero. */
function ed25519Key(): { line: string; blob: Buffer } {
  const { x } = generateKeyPairSync("ed25519").publicKey.export({ format: "jwk" });
  const fields = [Buffer.from("ssh-ed25519"), Buffer.from(x!, "base64url")];
  const blob = Buffer.concat(fields.flatMap((field) => [Buffer.from([0, 0, 0, field.length]), field]));
  return { line: `ssh-ed25519 ${blob.toString("base64")}`, blob };
}

export const HOME = "/home/dev";

export function query(host: string, extra: Partial<ConfigQuery> = {}): ConfigQuery {
  return { host, home: HOME, localUser: "dev", env: {}, ...extra };
}

/** What `resolveTarget` makes of an answer of ssh_config. */
export function targetFrom(
  config: Record<string, string[]>,
  options: Partial<RuntimeOptions> = {},
  env: CallerEnvironment = {},
): SshTarget {
  const parsed = parseRuntimeOptions({ host: "devbox", ...options });
  const values: ConfigValues = new Map(Object.entries(config));
  return combine(parsed, query(parsed.host, { env }), values);
}

/** The target of raw runtime options, as a broker resolves it; `changes` stand for what ssh_config might say. */
export async function resolve(raw: Record<string, unknown>, changes: Partial<SshTarget> = {}): Promise<SshTarget> {
  const { PATH, HOME: home } = process.env;
  return { ...(await resolveTarget(parseRuntimeOptions(raw), { PATH: PATH!, HOME: home! })), ...changes };
}

/** Connects, and closes the connection at the end of the test. */
export async function connect(target: SshTarget, options: ConnectOptions = {}): Promise<Carrier> {
  // Where the ssh program's control socket is while it logs in.
  process.env.PASEO_SSH_RUNTIME_DIR = temporaryFolder();
  const carrier = await connectAs(target, options);
  onTestFinished(() => carrier.close());
  return carrier;
}

export async function output(
  carrier: Carrier,
  command: string,
  input?: Buffer,
): Promise<{ stdout: string; stderr: string; exit: CommandExit }> {
  const channel = await carrier.run(command);
  if (input !== undefined) channel.stdin.end(input);
  const [stdout, stderr, exit] = await Promise.all([text(channel.stdout), text(channel.stderr), channel.exit]);
  return { stdout, stderr, exit };
}

/** Everything up to the end of a stream. Unlike `text` of node:stream/consumers it leaves the writable half open. */
export async function readAll(stream: Readable): Promise<Buffer> {
  const chunks: Buffer[] = [];
  stream.on("data", (chunk: Buffer) => chunks.push(chunk));
  await once(stream, "end");
  return Buffer.concat(chunks);
}

/** A keychain program that is this script; it goes with the end of the test. */
export function keychainProgram(source: string): string {
  const path = join(temporaryFolder(), "keychain.cjs");
  writeFileSync(path, source);
  return path;
}

/** A server of our own, for what no OpenSSH server can be made to do. @returns runtime options that reach it, without keys */
export async function serverOfOurs(serve: (client: Connection) => void): Promise<Record<string, unknown>> {
  const hostKey = ssh2.utils.generateKeyPairSync("ecdsa", { bits: 256 });
  const server = new ssh2.Server({ hostKeys: [hostKey.private] }, (client) => {
    client.on("error", () => {});
    serve(client);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const { port } = server.address() as { port: number };
  const folder = temporaryFolder();
  const [knownHostsFile, sshConfigFile] = [join(folder, "known_hosts"), join(folder, "config")];
  writeFileSync(knownHostsFile, `[127.0.0.1]:${port} ${hostKey.public}\n`);
  writeFileSync(sshConfigFile, "IdentityFile none\n");
  return { host: "127.0.0.1", port, user: "dev", knownHostsFile, sshConfigFile };
}

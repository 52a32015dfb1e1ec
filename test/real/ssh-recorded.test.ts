import { execFileSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { RuntimeError } from "../../src/wire/errors.ts";
import { connect, publicKey, resolve, temporaryFolder } from "../ssh/support.ts";
import { JumpHosts } from "../support/jump-hosts.ts";
import { describeReal } from "../support/requirements.ts";
import { DISCONNECT, KEX_ECDH_INIT, KEXINIT, NEWKEYS, SshRecorder } from "../support/ssh-recorder.ts";

interface HostKeyCase {
  name: string;
  /** Lines of known hosts for a server that is filed as `name` and has the key `key`. */
  lines(name: string, key: string): string[];
  policy?: "strict" | "accept-new";
  /** Hash the names in the file, as `ssh-keygen -H` does. */
  hashed?: boolean;
  /** The file of known hosts cannot be written. */
  unwritable?: boolean;
  /** Code of the refusal; absent when the key is good. */
  refused?: string;
}

const stranger = publicKey().line;
const plain = (name: string) => name.replace(/^\[(.*)\]:\d+$/, "$1");

const CASES: HostKeyCase[] = [
  { name: "known under its bracketed port", lines: (name, key) => [`${name} ${key}`] },
  { name: "known and hashed", lines: (name, key) => [`${name} ${key}`], hashed: true },
  { name: "known for every port", lines: (name, key) => [`${plain(name)} ${key}`] },
  { name: "known by a pattern", lines: (_, key) => [`[127.0.0.?]:* ${key}`] },
  { name: "new and accepted", lines: () => [], policy: "accept-new" },
  { name: "unknown", lines: () => [], refused: "host-key-unknown" },
  {
    name: "excluded by a pattern",
    lines: (name, key) => [`!${name},!${plain(name)},* ${key}`],
    refused: "host-key-unknown",
  },
  { name: "known for another port", lines: (_, key) => [`[127.0.0.1]:1 ${key}`], refused: "host-key-unknown" },
  { name: "changed", lines: (name) => [`${name} ${stranger}`], refused: "host-key-changed" },
  { name: "changed and hashed", lines: (name) => [`${name} ${stranger}`], hashed: true, refused: "host-key-changed" },
  {
    name: "changed, new ones accepted",
    lines: (name) => [`${name} ${stranger}`],
    policy: "accept-new",
    refused: "host-key-changed",
  },
  { name: "revoked", lines: (name, key) => [`${name} ${key}`, `@revoked * ${key}`], refused: "host-key-revoked" },
  {
    name: "revoked, new ones accepted",
    lines: (_, key) => [`@revoked * ${key}`],
    policy: "accept-new",
    refused: "host-key-revoked",
  },
  {
    name: "new, but cannot be filed",
    lines: () => [],
    policy: "accept-new",
    unwritable: true,
    refused: "host-key-unknown",
  },
];

const HANDSHAKE = [KEXINIT, KEX_ECDH_INIT];
const ALIASES = ["outer", "middle", "inner"] as const;
type Alias = (typeof ALIASES)[number];

/** Which host the case is about, and the hosts that are passed on the way. */
const PLACES: { place: string; subject: Alias; chain: Alias[] }[] = [
  { place: "directly", subject: "inner", chain: ["inner"] },
  { place: "as the first of two hops", subject: "outer", chain: ["outer", "middle", "inner"] },
  { place: "as the second of two hops", subject: "middle", chain: ["outer", "middle", "inner"] },
  { place: "behind two hops", subject: "inner", chain: ["outer", "middle", "inner"] },
];

describeReal("what a client sends to a host whose key is", () => {
  let hosts: JumpHosts;
  beforeAll(async () => {
    // The cases run at once, and a stock server drops some of more than ten unauthenticated connections.
    const config = ["MaxStartups 100"];
    hosts = await JumpHosts.start({ outer: { config }, middle: { config }, inner: { config } });
  });
  afterAll(() => hosts?.stop());

  it.each(PLACES.flatMap((place) => CASES.map((hostKey) => ({ ...place, hostKey, title: hostKey.name }))))(
    "$title, reached $place",
    async ({ subject, chain, hostKey }) => {
      const timeline: string[] = [];
      const recorders = new Map<Alias, SshRecorder>();
      for (const alias of chain) {
        const recorder = await SshRecorder.start(hosts.get(alias), {
          onEncrypted: () => timeline.push(`encrypted to ${alias}`),
        });
        onTestFinished(() => recorder.stop());
        recorders.set(alias, recorder);
      }
      const folder = temporaryFolder();
      const linesOf = (alias: Alias) => {
        const name = `[127.0.0.1]:${recorders.get(alias)!.port}`;
        const key = hosts.get(alias).hostPublicKeys[0]!;
        return alias === subject ? hostKey.lines(name, key) : [`${name} ${key}`];
      };
      const changes = Object.fromEntries(
        chain.map((alias) => [
          alias,
          {
            Port: String(recorders.get(alias)!.port),
            UserKnownHostsFile: knownHosts(join(folder, alias), linesOf(alias), alias === subject ? hostKey : {}),
            ...(alias === subject ? { StrictHostKeyChecking: hostKey.policy ?? "yes" } : {}),
          },
        ]),
      );
      const proxyJump = chain.slice(0, -1).join(",") || "none";
      const target = await resolve({ host: chain.at(-1), proxyJump, sshConfigFile: hosts.config(changes) });
      const outcome = await connect(target, {
        trace: ({ step, name }) => {
          const alias = chain.find((candidate) => name.endsWith(`:${recorders.get(candidate)!.port}`));
          if (step === "host-key") timeline.push(`accepted ${alias}`);
        },
      }).catch((error: unknown) => error);
      for (const recorder of recorders.values()) if (outcome instanceof Error) await recorder.quiet();

      const last = hostKey.refused === undefined ? chain.length : chain.indexOf(subject);
      const passed = chain.slice(0, last);
      expect(timeline).toEqual(passed.flatMap((alias) => [`accepted ${alias}`, `encrypted to ${alias}`]));
      for (const alias of passed) {
        expect(recorders.get(alias)!.connections).toEqual([[...HANDSHAKE, NEWKEYS, "encrypted"]]);
      }
      if (hostKey.refused === undefined) return;
      expect(outcome).toBeInstanceOf(RuntimeError);
      expect(outcome).toMatchObject({ code: hostKey.refused });
      // One that was refused gets nothing but a goodbye, and those behind it nothing at all. A key is filed when the
      // server has proved that it has it, which is after the last message that is not encrypted.
      const [refused] = recorders.get(subject)!.connections;
      expect(refused!.slice(0, 2)).toEqual(HANDSHAKE);
      for (const message of refused!.slice(2)) {
        expect(hostKey.unwritable ? [NEWKEYS, DISCONNECT] : [DISCONNECT]).toContain(message);
      }
      for (const alias of chain.slice(last + 1)) expect(recorders.get(alias)!.connections).toEqual([]);
    },
  );
});

function knownHosts(file: string, lines: string[], { hashed, unwritable }: Partial<HostKeyCase>): string {
  if (unwritable) return join("/dev/null", "known_hosts");
  writeFileSync(file, lines.map((line) => `${line}\n`).join(""));
  if (hashed) execFileSync("ssh-keygen", ["-q", "-H", "-f", file], { stdio: "ignore" });
  if (hashed && !existsSync(`${file}.old`)) throw new Error("ssh-keygen has hashed nothing");
  return file;
}

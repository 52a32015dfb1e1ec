import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type ProbeOptions, probeScript } from "../../src/broker/probe-script.ts";

/** What the probe finds, in each sh that a host may have. The nodes are scripts that say which one of them was used. */

const SHELLS = [["dash"], ["bash", "--posix"], ["bash"], ["busybox", "sh"], ["ksh"], ["mksh"], ["yash"]].flatMap(
  ([name, ...flags]) => {
    const program = ["/usr/bin", "/bin"].map((folder) => join(folder, name!)).find((path) => existsSync(path));
    return program === undefined ? [] : [[program, ...flags]];
  },
);

/** What a PATH usually leads to, but no node. */
let tools: string;
let scratch: string;
beforeAll(() => {
  scratch = mkdtempSync(join(tmpdir(), "psr-probe-"));
  tools = join(scratch, "tools");
  mkdirSync(tools);
  for (const place of ["/usr/bin", "/bin"]) {
    for (const name of readdirSync(place)) {
      if (!/^node(?:js)?$/.test(name) && !existsSync(join(tools, name)))
        symlinkSync(join(place, name), join(tools, name));
    }
  }
});
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const MARK = "@mark@";

const node = (major: number) => `#!/bin/sh\n[ "$1" = -p ] && echo ${major} || echo "used $0"\n`;
const HANGS = "#!/bin/sh\nexec sleep 60\n";
const OTHER = "#!/bin/sh\necho 'usage: node CALLSIGN'\n";

interface Scene {
  home?: string;
  /** Files below the home folder. */
  files?: Record<string, string>;
  env?: Record<string, string>;
  probe?: Partial<ProbeOptions>;
  /** Sent when the first of our lines has come. */
  answer?: string;
}

interface Found {
  home: string;
  /** Path of the node that was used, below the home folder. */
  used: string | undefined;
  /** Our lines. */
  lines: Record<string, unknown>[];
  /** Its standard error. */
  errors: string;
}

/** What each sh finds, beginning with its name. They are expected to agree. */
async function findWithAll(scene: Scene): Promise<[shell: string, found: Found][]> {
  return await Promise.all(SHELLS.map(async (shell) => [shell.join(" "), await find(shell, scene)] as [string, Found]));
}

async function usedByAll(scene: Scene): Promise<(string | undefined)[][]> {
  return (await findWithAll(scene)).map(([shell, { used }]) => [shell, used]);
}

const all = <T>(value: T) => SHELLS.map((shell) => [shell.join(" "), value]);

/** Runs the probe as a host does whose PATH has everything but node. */
async function find([program, ...flags]: string[], scene: Scene): Promise<Found> {
  const home = join(mkdtempSync(join(scratch, "account-")), scene.home ?? "home");
  mkdirSync(home);
  for (const [path, text] of Object.entries(scene.files ?? {})) put(join(home, path), text);
  const env: Record<string, string> = { HOME: home, PATH: tools, SHELL: "/bin/false" };
  for (const [name, value] of Object.entries(scene.env ?? {})) {
    env[name] = value.replaceAll("HOME", home).replaceAll("TOOLS", tools);
  }
  const child = spawn(program!, flags, { env, cwd: "/", stdio: ["pipe", "pipe", "pipe"] });
  let output = "";
  let answered = false;
  let errors = "";
  child.stderr.on("data", (chunk: Buffer) => {
    errors += chunk.toString("utf8");
  });
  child.stdin.on("error", () => {});
  child.stdout.on("data", (chunk: Buffer) => {
    output += chunk.toString("utf8");
    if (answered || !output.includes(`${MARK} `) || !output.endsWith("\n")) return;
    answered = true;
    child.stdin.end(scene.answer ?? "");
  });
  child.stdin.write(probeScript({ mark: MARK, node: undefined, nodeRoot: undefined, ...scene.probe }));
  await new Promise((resolve) => child.once("close", resolve));
  const lines = [...output.matchAll(new RegExp(`^${MARK} (.*)$`, "gm"))].map(([, text]) => JSON.parse(text!));
  const used = /^used (.*)$/m.exec(output)?.[1];
  return { home, used: used?.startsWith(`${home}/`) ? used.slice(home.length + 1) : used, lines, errors };
}

function put(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
  chmodSync(path, 0o755);
}

const MANAGERS: [manager: string, place: (version: string) => string][] = [
  ["nvm", (version) => `.nvm/versions/node/v${version}/bin/node`],
  ["fnm", (version) => `.local/share/fnm/node-versions/v${version}/installation/bin/node`],
  ["fnm on macOS", (version) => `Library/Application Support/fnm/node-versions/v${version}/installation/bin/node`],
  ["volta", (version) => `.volta/tools/image/node/${version}/bin/node`],
  ["asdf", (version) => `.asdf/installs/nodejs/${version}/bin/node`],
  ["mise", (version) => `.local/share/mise/installs/node/${version}/bin/node`],
  ["nodenv", (version) => `.nodenv/versions/${version}/bin/node`],
];

describe.concurrent("the probe", () => {
  it.each(MANAGERS)("takes the newest of %s that will do", async (_manager, place) => {
    const versions = ["9.11.2", "18.2.0", "20.9.0", "20.10.1", "16.0.0", "lts"];
    const files = Object.fromEntries(
      versions.map((version) => [place(version), node(Number.parseInt(version, 10) || 22)]),
    );
    expect(await usedByAll({ files })).toEqual(all(place("20.10.1")));
  });

  it("takes the next when the newest is broken, too old or not Node.js", async () => {
    const [, place] = MANAGERS[0]!;
    const files = { [place("30.0.0")]: OTHER, [place("25.0.0")]: "#!/no/such/program\n", [place("24.0.0")]: node(24) };
    expect(await usedByAll({ files })).toEqual(all(place("24.0.0")));
  });

  it("goes past one on the PATH that hangs, and one that is something else", async () => {
    const files = { "bin/node": HANGS, ".nvm/versions/node/v20.1.0/bin/node": OTHER, ".local/bin/node": node(18) };
    const env = { PATH: "HOME/bin:TOOLS" };
    expect(await usedByAll({ files, env })).toEqual(all(".local/bin/node"));
  });

  it("works in a home whose name has blanks, quotes and other letters", async () => {
    const home = `it's a "home" $HOME \`x\` é 家`;
    const files = { ".volta/tools/image/node/20.1.0/bin/node": node(20) };
    expect(await usedByAll({ home, files })).toEqual(all(".volta/tools/image/node/20.1.0/bin/node"));
  });

  it("takes what a login shell says behind 64 KB without an end of line", async () => {
    const noise = "head -c 65536 /dev/zero | tr '\\0' x; printf '\\033[2J@paseo@'\n";
    const profile = `${noise}PATH="$HOME/own bin:$PATH"; set -u; echo on stderr >&2\n`;
    const files = { ".profile": profile, "own bin/node": node(21), ".nvm/versions/node/v20.1.0/bin/node": node(20) };
    expect(await usedByAll({ files, env: { SHELL: "/bin/dash" } })).toEqual(all("own bin/node"));
  });

  it("minds no functions and options that the environment brings, and no PATH", async () => {
    const functions = Object.fromEntries(
      ["printf", "command", "read", "kill", "node"].map((name) => [
        `BASH_FUNC_${name}%%`,
        "() { echo mine; return 1; }",
      ]),
    );
    const env = { ...functions, SHELLOPTS: "errexit:nounset:noclobber", PATH: "/nowhere", ENV: "/nowhere" };
    const files = { ".asdf/installs/nodejs/20.1.0/bin/node": node(20) };
    expect(await usedByAll({ files, env })).toEqual(all(".asdf/installs/nodejs/20.1.0/bin/node"));
  });

  it.each([
    ["nothing", undefined, { old: 0, other: false }],
    ["too old", node(16), { old: 16, other: false }],
    ["no Node.js", OTHER, { old: 0, other: true }],
    ["one that hangs", HANGS, { old: 0, other: true }],
  ])("says of a named node that it is %s, and what the host is", async (_what, text, expected) => {
    const files = text === undefined ? {} : { "it's/node": text };
    const found = await findWithAll({ files, probe: { node: "~/it's/node" } });
    const uname = (flag: string) => spawnSync("uname", [flag], { encoding: "utf8" }).stdout.trim();
    const host = { system: uname("-s"), machine: uname("-m"), libc: process.platform === "linux" ? "glibc" : "" };
    const lines = [{ type: "no-node", ...expected, ...host }];
    expect(found.map(([shell, { used, lines }]) => [shell, { used, lines }])).toEqual(all({ used: undefined, lines }));
  });

  it("takes a node from here, keeps it under its hash, and refuses a damaged one", async () => {
    const content = node(22);
    const sha256 = createHash("sha256").update(content).digest("hex");
    const scene = { probe: { node: "/nowhere", nodeRoot: "~/ro ot" }, home: "ho me" };
    const offer = `${sha256} ${content.length}\n`;
    const file = `ro ot/node/${sha256}/node`;
    const types = ({ lines }: Found) => lines.map(({ type }) => type);
    const left = ({ home }: Found) => readdirSync(join(home, "ro ot", "node"), { recursive: true }).sort();
    for (const [shell, sent] of await findWithAll({ ...scene, answer: offer + content })) {
      expect([shell, sent.used, ...types(sent)]).toEqual([shell, file, "no-node", "send-node", "node"]);
      const path = join(sent.home, file);
      expect(readFileSync(path, "utf8")).toBe(content);
      expect([path, dirname(path)].map((place) => statSync(place).mode & 0o777)).toEqual([0o700, 0o700]);
      expect(left(sent)).toEqual([sha256, `${sha256}/node`]);
    }
    for (const [shell, found] of await findWithAll({ ...scene, files: { [file]: content }, answer: offer })) {
      expect([shell, found.used, ...types(found)]).toEqual([shell, file, "no-node", "node"]);
    }
    // One that is there and damaged is replaced; one that arrives damaged is not kept.
    for (const [shell, mended] of await findWithAll({ ...scene, files: { [file]: "x" }, answer: offer + content })) {
      expect([shell, mended.used, ...types(mended)]).toEqual([shell, file, "no-node", "send-node", "node"]);
    }
    for (const [shell, wrong] of await findWithAll({ ...scene, answer: offer + content.replace("used", "ruse") })) {
      expect([shell, wrong.lines.at(-1)]).toEqual([shell, { type: "node-refused", reason: "damaged" }]);
      expect(left(wrong)).toEqual([sha256]);
    }
  });

  it("says when what was sent does not run, and shows why", async () => {
    const content = "#!/bin/sh\necho 'libnode.so: cannot open shared object file' >&2\nexit 127\n";
    const sha256 = createHash("sha256").update(content).digest("hex");
    const probe = { node: "/nowhere", nodeRoot: "~/root" };
    for (const [shell, found] of await findWithAll({ probe, answer: `${sha256} ${content.length}\n${content}` })) {
      expect([shell, found.lines.at(-1)]).toEqual([shell, { type: "node-refused", reason: "run" }]);
      expect(found.errors).toContain("libnode.so: cannot open shared object file");
    }
  });
});

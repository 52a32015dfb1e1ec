import { mkdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { BuildHost, execFailureCode } from "../support/build-host.ts";
import { describeReal } from "../support/requirements.ts";
import { type BothWays, bothWays, openBothWays, PATH, readAll } from "../support/side-by-side.ts";

/** What a command finds when it starts: argv, environment and working folder, byte for byte as a local child would. */
describeReal("a command gets", () => {
  let host: BuildHost;
  let ways: BothWays;
  beforeAll(async () => {
    host = await BuildHost.start();
    const folder = host.emptyFolder();
    mkdirSync(join(folder, "deep", "er"), { recursive: true });
    mkdirSync(join(folder, "spaced out\n  ünd"));
    symlinkSync("deep/er", join(folder, "link"));
    ways = await openBothWays(host, folder);
  });
  afterAll(() => host?.stop());

  const PTY = { kind: "pty", rows: 24, cols: 80 };
  /** All that JSON can carry and a kernel takes; NUL is refused, which other tests look at. */
  const EVERY_CHARACTER = Array.from({ length: 255 }, (_, index) => String.fromCharCode(index + 1));
  const words = [
    "",
    " ",
    "two words",
    "line\nbreak\r\n",
    "\t\v\f\u001b[31m",
    `"double" 'single' \`back\``,
    "$HOME $(id) $\x7bx} \\ \\\\ * ? [a] {b,c} ~ ! # & | ; < >",
    "-rf",
    "--",
    "=",
    "ünïcödé ‮ 漢字 🦊 e\u0301",
    "\ufeff\ufffd\uffff",
    EVERY_CHARACTER.join(""),
    "x".repeat(100_000),
    "",
  ];
  const environment = {
    PATH,
    EMPTY: "",
    LINES: "one\ntwo\n",
    EQUALS: "a=b=c",
    SPACES: "  x  ",
    "lower case with blanks": "1",
    "BASH_FUNC_x%%": "() { :; }",
    ÜNÏ: "漢字 🦊",
    CHARACTERS: EVERY_CHARACTER.join(""),
    LD_LIBRARY_PATH: "/nowhere",
    NODE_OPTIONS: "--nonsense",
    ...JSON.parse('{"__proto__":"p","constructor":"c","toString":"t"}'),
  };

  it("its argv", async () => {
    const argv = ["sh", "-c", "cat /proc/$$/cmdline", ...words];
    const { local, remote } = await bothWays(ways, { argv });
    expect(remote).toEqual(local);
    expect(remote.code).toBe(0);
  });

  it("its argv[0], and not the path that it was found at", async () => {
    const zero = "tr '\\0' '\\n' </proc/$$/cmdline; exit 0";
    const { local, remote } = await bothWays(ways, { argv: ["sh", "-c", zero] });
    expect(remote).toEqual(local);
    expect(remote.stdout.split("\n")[0]).toBe("sh");
    const terminal = ways.client.exec("w", { argv: ["sh", "-c", zero], env: { PATH }, stdio: PTY });
    expect((await terminal.result()).stdout.toString("latin1").split("\r\n")[0]).toBe("sh");
    const pathless = ways.client.exec("w", { argv: ["/bin/sh", "-c", zero], env: {}, stdio: PTY });
    expect((await pathless.result()).stdout.toString("latin1").split("\r\n")[0]).toBe("/bin/sh");
  });

  it("its environment and nothing else", async () => {
    const argv = ["/bin/cat", "/proc/self/environ"];
    for (const env of [environment, {}, { ...environment, HUGE: "y".repeat(100 * 1024) }]) {
      const { local, remote } = await bothWays(ways, { argv, env });
      expect(remote).toEqual(local);
      expect(remote.code).toBe(0);
    }
  });

  it("the same words on a terminal", async () => {
    const argv = ["/bin/sh", "-c", "cat /proc/$$/cmdline /proc/$$/environ | od -An -v -tx1", ...words];
    const bytes = (text: string) => Buffer.from(text.replace(/\s+/g, ""), "hex").toString("latin1");
    const local = ways.locally({ argv, env: environment });
    const expected = bytes((await readAll(local.stdout)).toString());
    const exec = ways.client.exec("w", { argv, env: environment, stdio: PTY });
    const { stdout, code } = await exec.result();
    expect(code).toBe(0);
    expect(bytes(stdout.toString())).toBe(expected);
  });

  it("TERM on a terminal, from the terminal or else from its environment", async () => {
    const term = async (env: Record<string, string>, stdio: object) => {
      const exec = ways.client.exec("w", { argv: ["/bin/sh", "-c", 'echo "[$TERM]"'], env, stdio });
      return (await exec.result()).stdout.toString();
    };
    expect(await term({}, PTY)).toBe("[]\r\n");
    expect(await term({}, { ...PTY, term: "vt100" })).toBe("[vt100]\r\n");
    expect(await term({ TERM: "dumb" }, { ...PTY, term: "vt100" })).toBe("[dumb]\r\n");
  });

  it.each(["", ".", "deep", "deep/er/", "link", "spaced out\n  ünd"])("its working folder %j", async (cwd) => {
    const { local, remote } = await bothWays(ways, { argv: ["pwd", "-P"], cwd });
    expect(remote.code).toBe(0);
    const inside = (output: string) => output.split(/\/(?:content|folder-\d+)/).at(-1);
    expect(inside(remote.stdout)).toBe(inside(local.stdout));
  });

  // A terminal that lives meanwhile would show: node-pty leaves its near end open in whatever is started after it.
  it("descriptors 0 to 2 and no other one, whoever else runs", async () => {
    const other = ways.client.exec("w", { argv: ["cat"], env: { PATH } });
    await other.started();
    for (const stdio of [PTY, { kind: "pipes" }]) {
      // The fourth is the folder that is being listed.
      const { stdout } = await ways.client.exec("w", { argv: ["ls", "/proc/self/fd"], env: { PATH }, stdio }).result();
      expect(stdout.toString().split(/\s+/).filter(Boolean)).toEqual(["0", "1", "2", "3"]);
    }
    other.stdin.end();
    expect((await other.result()).code).toBe(0);
  });

  it("signals as a local child has them: none blocked, none ignored", async () => {
    const argv = ["grep", "^Sig[BIC]", "/proc/self/status"];
    const { local, remote } = await bothWays(ways, { argv });
    expect(remote).toEqual(local);
    const terminal = await ways.client.exec("w", { argv, env: { PATH }, stdio: PTY }).result();
    expect(terminal.stdout.toString().replaceAll("\r", "")).toBe(local.stdout);
  });

  it("umask, limits, and a session and process group of its own", async () => {
    const script = "umask; ulimit -a; echo $(ps -o sid=,pgid= -p $$) | tr -d ' ' | grep -c \"$$$$\"";
    const { local, remote } = await bothWays(ways, { argv: ["sh", "-c", script] });
    expect(remote).toEqual(local);
  });

  it("never a changed word: half of a surrogate pair has no bytes and is refused", async () => {
    const half = "\ud83e";
    const refused = [
      { argv: ["echo", half] },
      { argv: [`echo${half}`] },
      { argv: ["echo"], env: { PATH, A: `x${half}` } },
      { argv: ["echo"], env: { PATH, [half]: "x" } },
      { argv: ["echo"], cwd: half },
      { argv: ["echo"], stdio: { ...PTY, term: half } },
    ];
    for (const options of refused) {
      const exec = ways.client.exec("w", options);
      expect(execFailureCode(await exec.result())).toBe("spawn-invalid");
    }
  });
});

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { BuildHost, execFailureCode } from "../support/build-host.ts";
import { describeReal } from "../support/requirements.ts";
import { type BothWays, bothWays, fixture, forEach, observe, openBothWays, PATH } from "../support/side-by-side.ts";

/** How a command ends: the same as a local child process, for descriptor 4 and for whoever waits for the wrapper. */
describeReal("the end of a command", () => {
  let host: BuildHost;
  let ways: BothWays;
  beforeAll(async () => {
    host = await BuildHost.start();
    const folder = host.path("source");
    mkdirSync(folder);
    writeFileSync(join(folder, "no-first-line"), "echo $*; exit 5\n", { mode: 0o755 });
    writeFileSync(join(folder, "no-interpreter"), "#!/nowhere/sh\n", { mode: 0o755 });
    ways = await openBothWays(host, folder);
  });
  afterAll(() => host?.stop());

  /** As many wrappers as two cores carry without one waiting long for another. */
  const AT_ONCE = 8;
  const sh = (script: string) => ({ argv: ["sh", "-c", script] });

  it("is its exit code, whatever the code", async () => {
    const codes = Array.from({ length: 256 }, (_, code) => code);
    const results = await forEach(codes, AT_ONCE, (code) => observe(ways.remotely(sh(`echo ${code}; exit ${code}`))));
    expect(results).toEqual(codes.map((code) => ({ code, signal: null, stdout: `${code}\n`, stderr: "" })));
  });

  it("is the signal that ended it, also one that leaves a core", async () => {
    const stopping = new Set(["SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU"]);
    const names = Object.keys(constants.signals).filter((name) => !stopping.has(name));
    const results = await forEach(names, AT_ONCE, async (name) => ({
      name,
      ...(await bothWays(ways, { argv: ["sh", fixture("kill-self.sh"), name.slice(3)] })),
    }));
    for (const { name, local, remote } of results) expect({ name, ...remote }).toEqual({ name, ...local });
    const ended = results.filter(({ remote }) => remote.signal !== null).map(({ name }) => name);
    expect(ended).toEqual(expect.arrayContaining(["SIGKILL", "SIGSEGV", "SIGQUIT", "SIGUSR1", "SIGPIPE"]));
  });

  it("leaves no core of the wrapper, which says nothing about the command", async () => {
    const cwd = host.emptyFolder();
    const argv = ["sh", fixture("kill-self.sh"), "SEGV"];
    const SPAWN = ways.client.spawnFile(host.path("spawn"), { argv, env: { PATH } });
    const script = `ulimit -c unlimited; exec "$0" "$@" 3<"$SPAWN" 4>/dev/null`;
    const args = ["-c", script, process.execPath, ways.client.launcher, "exec", "--workspace-id", "w"];
    const child = spawn("sh", args, { cwd, env: { ...ways.client.env, SPAWN }, stdio: "ignore" });
    expect(await once(child, "exit")).toEqual([null, "SIGSEGV"]);
    expect(readdirSync(cwd)).toEqual([]);
  });

  it.each([
    ["a script without a first line", { argv: ["./no-first-line", "run by sh"] }],
    ["a failing exec of its own", sh("exec ./nowhere")],
    ["a failing exec without the right to", sh("exec ./")],
    ["a command that its shell does not find", sh("nowhere-at-all")],
    ["an end by its child's signal, seen by a shell", sh("sh -c 'kill -TERM $$'; echo $?; exit 9")],
    ["no output, no input", { argv: ["true"] }],
  ])("is that of a local one for %s", async (_what, command) => {
    const { local, remote } = await bothWays(ways, command);
    expect(remote).toEqual(local);
  });

  it.each([{ kind: "pipes" }, { kind: "pty", rows: 24, cols: 80 }])(
    "is an error and no exit when the system refuses to execute it: %o",
    async (stdio) => {
      const tooLong = ["sh", "-c", ":", "x".repeat(200_000)];
      for (const argv of [["./no-interpreter"], tooLong]) {
        const exec = ways.client.exec("w", { argv, stdio });
        expect(execFailureCode(await exec.result())).toBe("spawn-failed");
      }
    },
  );
});

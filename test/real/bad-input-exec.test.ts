import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdirSync, openSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, expect, it } from "vitest";
import { BuildHost, execFailureCode, failureCode } from "../support/build-host.ts";
import { describeReal } from "../support/requirements.ts";
import type { Exec, RuntimeClient, SpawnOptions } from "../support/runtime.ts";
import { write } from "../workspace/fixture.ts";

describeReal("bad executions", () => {
  let host: BuildHost;
  let client: RuntimeClient;

  beforeAll(async () => {
    host = await BuildHost.start();
    client = host.client();
    const source = host.path("source");
    write(join(source, "file"), "x\n");
    write(join(source, "no-interpreter"), "#!/nowhere/sh\n");
    mkdirSync(join(source, "folder"));
    symlinkSync("/etc", join(source, "out"));
    symlinkSync("folder", join(source, "in"));
    await client.create("w", { kind: "directory", path: source });
    await client.execute("w", ["chmod", "+x", "no-interpreter"]);
  });
  afterAll(() => host?.stop());

  type Envelope = Record<string, unknown>;
  function envelope(changes: Envelope = {}): Envelope {
    return {
      type: "spawn",
      protocolVersion: 1,
      runtimeInstanceId: client.runtimeInstanceId,
      argv: ["touch", "made"],
      env: {},
      purpose: { kind: "agent" },
      options: client.options,
      execId: host.newName("exec"),
      stdio: { kind: "pipes" },
      ...changes,
    };
  }

  const line = (changes?: Envelope) => () => `${JSON.stringify(envelope(changes))}\n`;
  const resize = { type: "resize", protocolVersion: 1, id: 1, rows: 10, cols: 10 };
  const spawnLines: [what: string, text: () => string, code: string][] = [
    ["no line", () => "", "spawn-invalid"],
    ["an empty line", () => "\n", "spawn-invalid"],
    ["half a line", () => line()().slice(0, 50), "spawn-invalid"],
    ["a line without its end", () => line()().trimEnd(), "spawn-invalid"],
    ["no JSON", () => "spawn\n", "spawn-invalid"],
    ["an oversized line", line({ env: { BIG: "x".repeat(9 * 1024 * 1024) } }), "spawn-invalid"],
    ["another version", line({ protocolVersion: 2 }), "protocol-version-unsupported"],
    ["an unknown key", line({ user: "root" }), "spawn-invalid"],
    ["an unknown key inside", line({ stdio: { kind: "pipes", rows: 3 } }), "spawn-invalid"],
    ["an empty argv", line({ argv: [] }), "spawn-invalid"],
    ["an empty execId", line({ execId: "" }), "spawn-invalid"],
    ["an unknown purpose", line({ purpose: { kind: "fun" } }), "spawn-invalid"],
    ["a terminal without rows", line({ stdio: { kind: "pty", rows: 0, cols: 80 } }), "spawn-invalid"],
    ["a terminal that is too large", line({ stdio: { kind: "pty", rows: 70_000, cols: 80 } }), "control-invalid"],
    ["an impossible variable", line({ env: { "A=B": "c" } }), "spawn-invalid"],
    ["an argument with a NUL", line({ argv: ["touch", "ma\0de"] }), "spawn-invalid"],
    ["a terminal name with a NUL", line({ stdio: { kind: "pty", rows: 9, cols: 9, term: "x\0y" } }), "spawn-invalid"],
    ["a resize first", () => `${JSON.stringify(resize)}\n`, "spawn-invalid"],
    ["two lines at once", () => line()() + line()(), "control-invalid"],
    ["a line and garbage at once", () => `${line()()}garbage\n`, "spawn-invalid"],
    ["bad options", line({ options: { host: "h", hots: 1 } }), "option-unknown"],
    ["a helper that is not there", line({ options: { host: "h", helper: "/nowhere/helper" } }), "helper-not-found"],
  ];

  it.each(spawnLines)("refuses %s on descriptor 3", async (_what, rawLine, code) => {
    const before = host.listing();
    expect(execFailureCode(await client.execute("w", [], { rawLine: rawLine() }))).toBe(code);
    expect(host.listing()).toEqual(before);
  });

  it("refuses to work without descriptors 3 and 4", async () => {
    const child = spawn(process.execPath, [client.launcher, "exec", "--workspace-id", "w"], { env: client.env });
    child.stdin.end();
    const [stdout, stderr] = [text(child.stdout), text(child.stderr)];
    const [code] = await once(child, "close");
    expect(failureCode({ code, signal: null, stdout: await stdout, stderr: await stderr })).toBe("spawn-invalid");
  });

  const places: [what: string, spawnOptions: Partial<SpawnOptions>, code: string][] = [
    ["an absolute cwd", { cwd: "/tmp" }, "cwd-outside-workspace"],
    ["a cwd above", { cwd: "folder/../.." }, "cwd-outside-workspace"],
    ["a cwd that leads out", { cwd: "out" }, "cwd-outside-workspace"],
    ["a cwd that leads out further on", { cwd: "out/ssh" }, "cwd-outside-workspace"],
    ["a cwd that is a file", { cwd: "file" }, "cwd-missing"],
    ["a missing cwd", { cwd: "nowhere" }, "cwd-missing"],
    ["a program that is not there", { argv: ["no-such-program"] }, "program-not-found"],
    ["a path that is not there", { argv: ["./no-such-program"] }, "program-not-found"],
    ["a program outside of PATH", { argv: ["sh"], env: { PATH: "/nowhere" } }, "program-not-found"],
    ["an empty program", { argv: [""] }, "program-not-found"],
    ["a folder as program", { argv: ["./folder"] }, "program-not-found"],
    ["a file that is not executable", { argv: ["./file"] }, "program-not-executable"],
  ];

  it.each(places)("does not execute with %s", async (_what, spawnOptions, code) => {
    const before = host.listing();
    for (const stdio of [{ kind: "pipes" }, { kind: "pty", rows: 24, cols: 80 }]) {
      const exec = client.exec("w", { argv: ["touch", "made"], ...spawnOptions, stdio });
      expect(execFailureCode(await exec.result())).toBe(code);
    }
    expect(host.listing()).toEqual(before);
  });

  it("does not execute a script without its interpreter", async () => {
    expect(execFailureCode(await client.execute("w", ["./no-interpreter"]))).toBe("spawn-failed");
  });

  it("follows a link that stays inside", async () => {
    const { stdout } = await client.execute("w", ["pwd"], { cwd: "in" });
    expect(stdout.toString("utf8")).toMatch(/\/folder\n$/);
  });

  async function running(options: Partial<SpawnOptions> = {}): Promise<Exec> {
    const exec = client.exec("w", { argv: ["sleep", "1000"], ...options });
    await exec.started();
    return exec;
  }

  const pty = { kind: "pty", rows: 24, cols: 80 };
  const controls: [what: string, text: () => string, code: string][] = [
    ["a second spawn line", line({ stdio: pty }), "control-invalid"],
    ["a resize to no rows", () => `${JSON.stringify({ ...resize, rows: 0 })}\n`, "control-invalid"],
    ["a resize to too many rows", () => `${JSON.stringify({ ...resize, rows: 70_000 })}\n`, "control-invalid"],
    ["an unknown key", () => `${JSON.stringify({ ...resize, pixels: 1 })}\n`, "control-invalid"],
    ["no JSON", () => "resize\n", "control-invalid"],
    [
      "an unknown signal",
      () => `${JSON.stringify({ type: "signal", protocolVersion: 1, signal: "SIGNONE" })}\n`,
      "signal-unknown",
    ],
  ];

  it.each(controls)("fails a terminal for %s", async (_what, text_, code) => {
    const exec = await running({ stdio: pty });
    exec.control.write(text_());
    expect(execFailureCode(await exec.result())).toBe(code);
    expect((await client.signal("w", exec.execId, "SIGKILL")).code).toBe(0);
  });

  it("fails a terminal when descriptor 3 ends inside a line", async () => {
    const exec = await running({ stdio: pty });
    exec.control.end('{"type":');
    expect(execFailureCode(await exec.result())).toBe("control-invalid");
  });

  it.each([
    ["a second spawn line", line()],
    ["a resize", () => `${JSON.stringify(resize)}\n`],
    ["garbage", () => "garbage"],
  ])("fails an execution with pipes for %s behind the spawn line", async (_what, text_) => {
    const marker = host.newName("marker");
    // As a terminal only for the test's own sake: it leaves descriptor 3 open.
    const exec = client.exec("w", {
      argv: [],
      rawLine: line({ argv: ["sh", "-c", `echo ${marker}; exec sleep 1000`] })(),
      stdio: { kind: "pty" },
    });
    await exec.started();
    exec.control.end(text_());
    const result = await exec.result();
    expect(execFailureCode({ ...result, stdout: Buffer.alloc(0) })).toBe("control-invalid");
  });

  it("tells a failure in a file on descriptor 2 as well, though the workload has closed its own", async () => {
    const errors = host.path("errors");
    const descriptor = openSync(errors, "w");
    const exec = client.exec("w", {
      argv: ["sh", "-c", "exec 2>&-; echo closed; exec sleep 1000"],
      descriptors: ["pipe", "pipe", descriptor],
    });
    closeSync(descriptor);
    await exec.outputContains("closed");
    // By the end of another execution the end of that output has long been told.
    await client.execute("w", ["true"]);
    await host.killAgents();
    await exec.result();
    expect(readFileSync(errors, "utf8")).toContain("[execution-lost]");
  });

  it("never uses an execution id twice: not while it lives, not after its end, not after a crash", async () => {
    const again = async (execId: string) => execFailureCode(await client.execute("w", ["touch", "made"], { execId }));
    const live = await running();
    expect(await again(live.execId)).toBe("exec-id-reused");
    await client.signal("w", live.execId, "SIGKILL");
    await live.result();
    expect(await again(live.execId)).toBe("exec-id-reused");

    const lost = await running();
    await host.killAgents();
    expect(execFailureCode(await lost.result())).toBe("execution-lost");
    for (const execId of [live.execId, lost.execId]) expect(await again(execId)).toBe("exec-id-reused");
    expect(host.listing().filter((path) => path.endsWith("/made"))).toEqual([]);
  });

  it("does not send a signal that does not exist, nor to an execution that never was", async () => {
    const exec = await running();
    expect(failureCode(await client.signal("w", exec.execId, "SIGNONE"))).toBe("signal-unknown");
    expect(failureCode(await client.signal("w", "never", "SIGTERM"))).toBe("execution-unknown");
    expect(await client.signal("w", exec.execId, "SIGTERM")).toMatchObject({ code: 0, stdout: "", stderr: "" });
    expect(await exec.result()).toMatchObject({ signal: "SIGTERM" });
  });
});

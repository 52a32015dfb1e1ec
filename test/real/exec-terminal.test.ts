import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { constants } from "node:os";
import { afterAll, beforeAll, expect, it } from "vitest";
import { BuildHost, execFailureCode } from "../support/build-host.ts";
import { isStopped, processorSeconds } from "../support/processes.ts";
import { describeReal } from "../support/requirements.ts";
import type { RuntimeClient } from "../support/runtime.ts";
import { describeBytes, fixture, PATH } from "../support/side-by-side.ts";
import { Terminal } from "../support/terminal.ts";

/** A terminal's bytes, its size, and signals to who sits on it. */
describeReal("a terminal", () => {
  let host: BuildHost;
  let client: RuntimeClient;
  beforeAll(async () => {
    host = await BuildHost.start();
    client = host.client();
    await client.create("w", { kind: "directory", path: host.emptyFolder() });
  });
  afterAll(() => host?.stop());

  const MEBIBYTE = 1024 * 1024;
  const EVERY_BYTE = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
  const RAW = "stty raw -echo; echo ready;";
  const sh = (script: string) => new Terminal(client, "w", ["sh", "-c", script]);
  const node = (name: string) => new Terminal(client, "w", [process.execPath, fixture(name)]);
  const whole = [{ type: "started" }, { type: "eof" }, { type: "exit" }];

  it("carries every byte both ways when its program wants them raw", async () => {
    const terminal = sh(`${RAW} head -c 256`);
    await terminal.sees("ready\n");
    terminal.type(EVERY_BYTE);
    expect(await terminal.rest()).toEqual(EVERY_BYTE);
    expect(await terminal.result()).toMatchObject({ code: 0, signal: null, events: whole });
  });

  it("does what a terminal does with them when it does not", async () => {
    const terminal = sh("read line; echo got $line; exit 5");
    terminal.type("abx\x7fc\r");
    expect((await terminal.rest()).toString()).toBe("abx\b \bc\r\ngot abc\r\n");
    expect(await terminal.result()).toMatchObject({ code: 5, stderr: Buffer.alloc(0) });
  });

  it("takes a paste that is larger than its buffer, without turning in circles or holding up anybody", async () => {
    const paste = randomBytes(MEBIBYTE);
    const go = host.path("go");
    const terminal = sh(`${RAW} while [ ! -e ${go} ]; do sleep 0.05; done; head -c ${paste.length} | sha256sum`);
    await terminal.sees("ready\n");
    const [agent] = host.agentPids();
    terminal.type(paste);
    // Nobody reads it yet, and for the others that must not matter.
    const before = processorSeconds(agent!);
    const start = performance.now();
    for (let round = 0; round < 10; round += 1) {
      expect((await client.execute("w", ["echo", "by the way"])).stdout.toString()).toBe("by the way\n");
    }
    const share = (processorSeconds(agent!) - before) / ((performance.now() - start) / 1000);
    expect(share).toBeLessThan(0.5);
    await client.execute("w", ["touch", go]);
    const hash = describeBytes(paste).split(" ").at(-1);
    expect((await terminal.rest()).toString()).toMatch(new RegExp(`^${hash} `));
    // The agent has had to write in pieces as the program read; one core busy all the time would be far more.
    expect(processorSeconds(agent!) - before).toBeLessThan(3);
  });

  it("has its size from the first byte, and each resize is seen once", async () => {
    const terminal = new Terminal(client, "w", [process.execPath, fixture("report-size.mjs")], {
      stdio: { kind: "pty", rows: 7, cols: 61 },
    });
    expect(await terminal.line()).toBe("start 7x61");
    for (let round = 1; round <= 30; round += 1) {
      await terminal.resized(terminal.resize(10 + round, 100 + round));
      expect(await terminal.line()).toBe(`winch ${10 + round}x${100 + round}`);
    }
    terminal.type("end\r");
    expect((await terminal.rest()).toString()).toBe("end\r\n");
    const { events } = await terminal.result();
    const ids = events.flatMap((event) => (event.type === "resized" ? [event.id] : []));
    expect(ids).toEqual(Array.from({ length: 30 }, (_, index) => index + 1));
    expect(events.filter((event) => event.type !== "resized")).toMatchObject(whole);
  });

  it("has the new size for input that was written after it, under load as well", async () => {
    const load = Array.from({ length: 2 }, () =>
      client.exec("w", { argv: ["yes"], env: { PATH }, collectOutput: false }),
    );
    for (const exec of load) exec.child.stdout!.resume();
    const terminal = sh("stty -echo; echo ready; while read line; do echo $line $(stty size); done; exit 4");
    await terminal.sees("ready\r\n");
    const rounds = 100;
    for (let round = 1; round <= rounds; round += 1) {
      terminal.resize(10 + round, 200 + round);
      terminal.type(`${round}\r`);
    }
    for (let round = 1; round <= rounds; round += 1) {
      const [number, rows, columns] = (await terminal.line()).split(" ").map(Number);
      // A later resize may be there as well by the time that the program looks.
      expect([number, rows! - 10 >= round, columns! - rows!]).toEqual([round, true, 190]);
    }
    terminal.type("\x04");
    expect((await terminal.result()).code).toBe(4);
    for (const exec of load) exec.child.kill("SIGTERM");
    await Promise.all(load.map((exec) => exec.result()));
  });

  it("takes more resizes than may be on the way at once, and then the input behind them", async () => {
    const terminal = sh("stty -echo; echo ready; read line; echo $line $(stty size); exit 3");
    await terminal.sees("ready\r\n");
    const rounds = 1000;
    for (let round = 1; round <= rounds; round += 1) terminal.resize(10 + (round % 90), 100);
    terminal.resize(77, 99);
    terminal.type("input\r");
    expect(await terminal.line()).toBe("input 77 99");
    const { code, events } = await terminal.result();
    expect(code).toBe(3);
    expect(events.filter(({ type }) => type === "resized")).toHaveLength(rounds + 1);
  });

  it("changes nothing for a control that is invalid, nor for one behind it", async () => {
    const size = host.path("size");
    const terminal = sh(
      `trap 'stty size >>${size}' WINCH; trap '' HUP; kill -WINCH $$; echo ready; while :; do sleep 0.02; done`,
    );
    await terminal.sees("ready");
    terminal.resize(0, 100);
    terminal.resize(50, 100);
    const result = await terminal.result();
    expect(execFailureCode(result)).toBe("control-invalid");
    expect(result.events.map((event) => event.type)).toEqual(["started", "error"]);
    await client.signal("w", terminal.exec.execId, "SIGKILL");
    expect(readFileSync(size, "utf8")).toBe("24 80\n");
  });

  it("carries every signal on descriptor 3", async () => {
    const terminal = node("report-signals.mjs");
    expect(await terminal.line()).toBe("ready");
    const names = new Map(Object.entries(constants.signals).map(([name, number]) => [number, name]));
    for (const other of ["SIGKILL", "SIGSTOP", "SIGTERM"] as const) names.delete(constants.signals[other]);
    for (const name of names.values()) {
      terminal.signal(name);
      expect(await terminal.line()).toBe(name);
    }
    terminal.signal("SIGTERM");
    expect((await terminal.rest()).toString()).toBe("SIGTERM\r\n");
    expect(await terminal.result()).toMatchObject({ code: 17, signal: null, events: whole });
  });

  it("can be stopped, continued and killed on descriptor 3", async () => {
    const terminal = sh("echo $$; while read line; do echo $line; done");
    const pid = Number(await terminal.line());
    terminal.signal("SIGSTOP");
    await expect.poll(() => isStopped(pid)).toBe(true);
    terminal.type("x\r");
    expect(await terminal.line()).toBe("x");
    terminal.signal("SIGCONT");
    expect(await terminal.line()).toBe("x");
    terminal.signal("SIGKILL");
    const { code, signal, events } = await terminal.result();
    expect({ code, signal, events }).toMatchObject({ code: null, signal: "SIGKILL", events: whole });
  });
});

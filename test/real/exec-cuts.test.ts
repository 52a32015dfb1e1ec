import { randomBytes } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { BuildHost, execFailureCode } from "../support/build-host.ts";
import type { DelayingProxy } from "../support/delaying-proxy.ts";
import { type FarHost, KEEPALIVE_MS, openFarHost } from "../support/far-host.ts";
import { untilGone } from "../support/processes.ts";
import { describeReal } from "../support/requirements.ts";
import type { RuntimeClient } from "../support/runtime.ts";
import { describeBytes, lifecycle, Output, PATH } from "../support/side-by-side.ts";
import { Terminal } from "../support/terminal.ts";

/** Links that break in every way that links have, under streams in both directions. */
describeReal("a cut", () => {
  let host: BuildHost;
  let far: FarHost;
  let proxy: DelayingProxy;
  let client: RuntimeClient;
  beforeAll(async () => {
    host = await BuildHost.start();
    far = await openFarHost(host);
    ({ proxy, client } = far);
  });
  afterEach(async () => {
    proxy.rateLimit(undefined);
    proxy.stall(false);
    proxy.blackhole(false);
    await proxy.refuse(false);
  });
  afterAll(async () => {
    await host?.stop();
    await far?.stop();
  });

  const MEBIBYTE = 1024 * 1024;
  /** Three silent intervals and the one that had begun. */
  const UNTIL_NOTICED_MS = 4 * KEEPALIVE_MS;
  const cuts: Record<string, () => unknown> = {
    "a reset": () => proxy.cut(),
    "a link that is dead in silence": () => {
      proxy.blackhole(true);
      // What was lost stays lost, but who comes anew gets through.
      proxy.blackhole(false);
    },
    "a stall that is taken for the end": async () => {
      proxy.stall(true);
      await setTimeout(1.25 * UNTIL_NOTICED_MS);
      proxy.stall(false);
    },
  };

  it.each(Object.keys(cuts))(
    "of the kind of %s loses nothing and repeats nothing, for pipes and terminals",
    async (kind) => {
      proxy.rateLimit(24 * MEBIBYTE);
      const input = randomBytes(16 * MEBIBYTE);
      const pipes = client.exec("w", { argv: ["cat"], env: { PATH }, collectOutput: false });
      const terminal = new Terminal(client, "w", ["sh", "-c", "stty raw -echo; echo ready; exec cat"]);
      await terminal.sees("ready\n");
      const paste = randomBytes(2 * MEBIBYTE);
      const output = new Output(pipes.child.stdout!);
      pipes.stdin.end(input);
      terminal.type(paste);
      const ids: number[] = [];
      for (let cut = 1; cut <= 3; cut += 1) {
        await output.reaches(cut * 4 * MEBIBYTE);
        ids.push(terminal.resize(20 + cut, 100));
        await cuts[kind]!();
        ids.push(terminal.resize(30 + cut, 100));
      }
      expect(describeBytes(await output.rest())).toBe(describeBytes(input));
      const { code, signal } = await pipes.result();
      expect(pipes.events).toEqual(lifecycle(0, null));
      expect({ code, signal }).toEqual({ code: 0, signal: null });

      expect(describeBytes(await terminal.bytes(paste.length))).toBe(describeBytes(paste));
      terminal.signal("SIGTERM");
      expect((await terminal.rest()).length).toBe(0);
      const { events, signal: end } = await terminal.result();
      expect(end).toBe("SIGTERM");
      expect(events.flatMap((event) => (event.type === "resized" ? [event.id] : []))).toEqual(ids);
      expect(events.map((event) => event.type).filter((type) => type !== "resized")).toEqual([
        "started",
        "eof",
        "exit",
      ]);
    },
  );

  it("that is over before anybody noticed makes no new connection", async () => {
    const exec = client.exec("w", { argv: ["cat"], env: { PATH } });
    await exec.started();
    const logins = host.logins();
    proxy.stall(true);
    exec.stdin.end("held\n");
    await setTimeout(2 * KEEPALIVE_MS);
    proxy.stall(false);
    expect((await exec.result()).stdout.toString()).toBe("held\n");
    expect(host.logins()).toBe(logins);
  });

  it("pauses the command when its window is full, and the writer of its input, and nothing is lost", async () => {
    const megabytes = 24;
    const progress = host.path("progress");
    const script = 'i=0; while [ $i -lt $1 ]; do head -c 1048576 "$2"; i=$((i+1)); echo $i >"$3"; done; sha256sum >&2';
    const block = host.path("block");
    writeFileSync(block, randomBytes(MEBIBYTE));
    const exec = client.exec("w", {
      argv: ["sh", "-c", script, "sh", String(megabytes), block, progress],
      env: { PATH },
      collectOutput: false,
    });
    await exec.started();
    await proxy.refuse(true);
    proxy.cut();
    const output = new Output(exec.child.stdout!);
    const input = randomBytes(megabytes * MEBIBYTE);
    exec.stdin.end(input);
    const looks: number[] = [];
    const stands = () => {
      looks.push(existsSync(progress) ? Number(readFileSync(progress, "utf8")) : 0);
      return looks.length > 2 && looks.at(-1) === looks.at(-3);
    };
    await expect.poll(stands, { interval: 500, timeout: 30_000 }).toBe(true);
    // A window of 2 MiB, what the kernel holds between the two, and what came through before the cut.
    expect(looks.at(-1)).toBeLessThan(megabytes / 2);
    expect(exec.stdin.writableLength).toBeGreaterThan(input.length / 2);
    await proxy.refuse(false);
    const expected = Buffer.concat(Array(megabytes).fill(readFileSync(block)));
    expect(describeBytes(await output.rest())).toBe(describeBytes(expected));
    const { code, stderr } = await exec.result();
    expect({ code, hash: stderr.toString().split(" ")[0] }).toEqual({
      code: 0,
      hash: describeBytes(input).split(" ").at(-1),
    });
  });

  it("after the end of the command, with output still to be read, loses nothing of it", async () => {
    const bytes = MEBIBYTE + 12_345;
    const argv = ["sh", "-c", `echo $$ >&2; head -c ${bytes} /dev/zero; exit 7`];
    const exec = client.exec("w", { argv, env: { PATH }, collectOutput: false, collectErrors: false });
    const errors = new Output(exec.child.stderr!);
    await untilGone(Number(await errors.line()));
    for (let cut = 0; cut < 3; cut += 1) {
      // Once something else has come and gone on the same way, this execution's news is here as well.
      await client.execute("w", ["true"]);
      proxy.cut();
    }
    await client.execute("w", ["true"]);
    const output = new Output(exec.child.stdout!);
    expect((await output.rest()).length).toBe(bytes);
    const { code, signal } = await exec.result();
    expect(exec.events).toEqual(lifecycle(7, null));
    expect({ code, signal }).toEqual({ code: 7, signal: null });
  });

  it("in silence that lasts longer than the window ends the wrapper with an error, and the command", async () => {
    const window = 1000;
    const impatient = client.with({ options: { reconnectWindowMs: window } });
    const exec = impatient.exec("w", { argv: ["sh", "-c", "echo $$; exec sleep 1000"], env: { PATH } });
    await exec.outputContains("\n");
    const pid = Number(exec.output);
    const start = performance.now();
    proxy.blackhole(true);
    const result = await exec.result();
    expect(execFailureCode({ ...result, stdout: Buffer.alloc(0) })).toBe("reconnect-window-exceeded");
    // Noticing, the window, and a machine that is busy; far from the 15 s after which an attempt to connect gives up.
    expect(performance.now() - start).toBeLessThan(UNTIL_NOTICED_MS + window + 5000);
    await untilGone(pid);
  });
});

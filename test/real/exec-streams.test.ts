import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { closeSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { BuildHost } from "../support/build-host.ts";
import { startDelayingProxy } from "../support/delaying-proxy.ts";
import { describeReal } from "../support/requirements.ts";
import {
  type BothWays,
  bothWays,
  type Command,
  describeBytes,
  fixture,
  lifecycle,
  Output,
  openBothWays,
  PATH,
  type Running,
} from "../support/side-by-side.ts";
import { Terminal } from "../support/terminal.ts";

/** Descriptors 0, 1 and 2 of a command with pipes: whole, independent of each other, and closed when they are closed. */
describeReal("the streams of a command", () => {
  let host: BuildHost;
  let ways: BothWays;
  beforeAll(async () => {
    host = await BuildHost.start();
    ways = await openBothWays(host, host.emptyFolder());
  });
  afterAll(() => host?.stop());

  const MEBIBYTE = 1024 * 1024;
  const EVERY_BYTE = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
  const sh = (script: string, ...words: string[]): Command => ({ argv: ["sh", "-c", script, "sh", ...words] });

  /** Plays the same on both sides and compares what the player saw. */
  async function compare<Seen>(play: (start: (command: Command) => Running) => Promise<Seen>): Promise<Seen> {
    const [local, remote] = await Promise.all([play(ways.locally), play(ways.remotely)]);
    expect(remote).toEqual(local);
    return remote;
  }

  it("carry every byte, both ways", async () => {
    const { local, remote } = await bothWays(ways, { argv: ["cat"] }, EVERY_BYTE);
    expect(remote).toEqual(local);
    expect(remote.stdout).toBe(EVERY_BYTE.toString("latin1"));

    const big = Buffer.concat([EVERY_BYTE, randomBytes(5 * MEBIBYTE)]);
    const copied = await bothWays(ways, { argv: [process.execPath, fixture("copy-to-both.mjs")] }, big);
    expect(copied.remote).toEqual(copied.local);
    expect(copied.remote).toMatchObject({ code: 0, stdout: describeBytes(big), stderr: describeBytes(big) });
  });

  it("end one after the other: input ends while output goes on", async () => {
    const seen = await compare(async (start) => {
      const running = start(sh("cat; echo after the end; sleep 0.1; echo and later; exit 3"));
      const output = new Output(running.stdout);
      running.stdin.write("before\n");
      expect(await output.line()).toBe("before");
      running.stdin.end("last, without a newline");
      return { rest: (await output.rest()).toString(), ...(await running.ended) };
    });
    expect(seen).toEqual({ rest: "last, without a newlineafter the end\nand later\n", code: 3, signal: null });
  });

  it("end one after the other: outputs end while the command goes on", async () => {
    const seen = await compare(async (start) => {
      const running = start(sh("echo last; exec >&-; read a; echo $a >&2; exec 2>&-; read b; exit $b"));
      const [output, errors] = [new Output(running.stdout), new Output(running.stderr)];
      // Nothing is written before the end of the stream has been seen, so the command cannot have ended.
      const out = (await output.rest()).toString();
      running.stdin.write("to stderr\n");
      const err = (await errors.rest()).toString();
      running.stdin.end("5\n");
      return { out, err, ...(await running.ended) };
    });
    expect(seen).toEqual({ out: "last\n", err: "to stderr\n", code: 5, signal: null });
  });

  it("break for the writer when the command closes its input, and the command goes on", async () => {
    const seen = await compare(async (start) => {
      const go = host.path(host.newName("go"));
      const script = `exec <&-; echo closed; while [ ! -e "$1" ]; do sleep 0.02; done; echo done; exit 6`;
      const running = start(sh(script, go));
      const output = new Output(running.stdout);
      expect(await output.line()).toBe("closed");
      const broken = once(running.stdin, "error") as Promise<[NodeJS.ErrnoException]>;
      const write = () => void running.stdin.write(EVERY_BYTE, (error) => error || setImmediate(write));
      write();
      const [error] = await broken;
      writeFileSync(go, "");
      return { error: error.code, output: (await output.rest()).toString(), ...(await running.ended) };
    });
    expect(seen).toEqual({ error: "EPIPE", output: "done\n", code: 6, signal: null });
  });

  it("take a command that ends with input unread for no failure", async () => {
    const { local, remote } = await bothWays(ways, sh("head -c 3; exit 8"), randomBytes(5 * MEBIBYTE).fill("abc"));
    expect(remote).toEqual(local);
    expect(remote).toEqual({ code: 8, signal: null, stdout: "abc", stderr: "" });
  });

  // A command that waits in the middle of a write when that happens gets ECONNRESET instead, since Node's pipes are
  // sockets; here as there, but not at the same moment. So these write little at a time.
  const drip = "while :; do echo drip; sleep 0.01; done";

  it("break for the command when its reader closes one, and the other goes on", async () => {
    const seen = await compare(async (start) => {
      const running = start(sh(`(${drip}); echo ended with $? >&2; read line; echo $line >&2; exit 7`));
      const errors = new Output(running.stderr);
      await once(running.stdout, "data");
      running.stdout.destroy();
      const first = await errors.line();
      running.stdin.end("and on\n");
      return { first, rest: (await errors.rest()).toString(), ...(await running.ended) };
    });
    // 128 and SIGPIPE.
    expect(seen).toEqual({ first: "ended with 141", rest: "and on\n", code: 7, signal: null });
  });

  it.each(["stdout", "stderr"] as const)("end a command by SIGPIPE when its reader closes %s", async (name) => {
    const seen = await compare(async (start) => {
      const running = start(sh(name === "stdout" ? drip : `exec >&2; ${drip}`));
      await once(running[name], "data");
      running[name].destroy();
      running[name === "stdout" ? "stderr" : "stdout"].resume();
      return await running.ended;
    });
    expect(seen).toEqual({ code: null, signal: "SIGPIPE" });
  });

  it("end a command that floods one when its reader closes it", async () => {
    const running = ways.remotely({ argv: ["yes"] });
    running.stderr.resume();
    await once(running.stdout, "data");
    running.stdout.destroy();
    expect((await running.ended).code).not.toBe(0);
  });

  it("do not wait for each other: one that is not read stops itself alone, and loses nothing", async () => {
    const bytes = 8 * MEBIBYTE;
    const seen = await compare(async (start) => {
      const running = start(sh(`head -c ${bytes} /dev/zero & cat >&2; wait; echo over >&2; exit 2`));
      const errors = new Output(running.stderr);
      for (let count = 0; count < 50; count += 1) {
        running.stdin.write(`${count} ${"x".repeat(64 * 1024)}\n`);
        expect((await errors.line()).length).toBe(`${count} `.length + 64 * 1024);
      }
      running.stdin.end();
      await new Promise((resolve) => setImmediate(resolve));
      expect(running.child.exitCode).toBe(null);
      const output = new Output(running.stdout);
      return { zeros: (await output.rest()).length, over: await errors.line(), ...(await running.ended) };
    });
    expect(seen).toEqual({ zeros: bytes, over: "over", code: 2, signal: null });
  });

  it("slow the command down when they are read slowly", async () => {
    const script = 'i=0; while [ $i -lt 64 ]; do head -c 1048576 /dev/zero; i=$((i+1)); echo $i >"$1"; done';
    const progress = host.path("progress");
    const running = ways.remotely(sh(script, progress));
    await running.started();
    const looks: string[] = [];
    // It stands still when it has got no further between two looks.
    const stands = () => looks.push(readFileSync(progress, "utf8")) > 1 && looks.at(-1) === looks.at(-2);
    await expect.poll(stands, { interval: 500, timeout: 20_000 }).toBe(true);
    expect(Number(looks.at(-1))).toBeLessThan(16);
    const output = new Output(running.stdout);
    expect((await output.rest()).length).toBe(64 * MEBIBYTE);
    expect(await running.ended).toEqual({ code: 0, signal: null });
  });

  it("may be files and devices on the near side", async () => {
    const [input, output, errors] = ["in", "out", "err"].map((name) => host.path(name)) as [string, string, string];
    const big = randomBytes(3 * MEBIBYTE);
    writeFileSync(input, big);
    const run = async (argv: string[], stdin: string, stdout: string, stderr: string) => {
      const descriptors = [openSync(stdin, "r"), openSync(stdout, "w"), openSync(stderr, "w")] as [
        number,
        number,
        number,
      ];
      const exec = ways.client.exec("w", { argv, env: { PATH }, descriptors });
      for (const descriptor of descriptors) closeSync(descriptor);
      const { code, signal } = await exec.result();
      expect(exec.events).toEqual(lifecycle(code, signal));
      return code;
    };
    expect(await run([process.execPath, fixture("copy-to-both.mjs")], input, output, errors)).toBe(0);
    expect(describeBytes(readFileSync(output))).toBe(describeBytes(big));
    expect(describeBytes(readFileSync(errors))).toBe(describeBytes(big));
    expect(await run(["sh", "-c", "wc -c; exit 9"], "/dev/null", output, "/dev/null")).toBe(9);
    expect(readFileSync(output, "utf8")).toBe("0\n");
  });

  it("may be a terminal on the near side, and the end waits for no key", async () => {
    const argv = ["sh", "-c", "read line; echo got $line; exit 11"];
    const spawn = ways.client.spawnFile(host.path("spawn"), { argv, env: { PATH } });
    const wrapper = `exec "$0" "$1" exec --workspace-id w 3<${spawn} 4>/dev/null`;
    const terminal = new Terminal(ways.client, "w", ["sh", "-c", wrapper, process.execPath, ways.client.launcher], {
      env: { PATH, PASEO_SSH_RUNTIME_DIR: ways.client.brokerFolder },
    });
    terminal.type("by hand\r");
    expect((await terminal.rest()).toString()).toBe("by hand\r\ngot by hand\r\n");
    expect((await terminal.result()).code).toBe(11);
  });

  it("take input from before the command has started, in however many pieces", async () => {
    const proxy = await startDelayingProxy({ target: host.sshd, oneWayDelayMs: 0 });
    try {
      const cold = host.client(
        { port: proxy.port, hostKeyPolicy: "accept-new" },
        { runtimeInstanceId: ways.client.runtimeInstanceId },
      );
      proxy.stall(true);
      const exec = cold.exec("w", { argv: ["cat"], env: { PATH } });
      const expected: string[] = [];
      // One read of the wrapper each, so that they are as many frames when the connection comes to stand.
      for (let piece = 0; piece < 600; piece += 1) {
        expected.push(`${piece}\n`);
        exec.stdin.write(expected.at(-1));
        await setTimeout(1);
      }
      exec.stdin.end();
      proxy.stall(false);
      const result = await exec.result();
      expect(result.stderr.toString()).toBe("");
      expect(result.stdout.toString()).toBe(expected.join(""));
    } finally {
      await proxy.stop();
    }
  });
});

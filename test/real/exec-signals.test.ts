import { afterAll, beforeAll, expect, it } from "vitest";
import { BuildHost } from "../support/build-host.ts";
import { isRunning, isStopped } from "../support/processes.ts";
import { describeReal } from "../support/requirements.ts";
import {
  type BothWays,
  type Ending,
  forEach,
  lifecycle,
  Output,
  openBothWays,
  PATH,
  type Running,
} from "../support/side-by-side.ts";

/** Signals to a command with pipes: over the wrapper, over the operation `signal`, and from somebody else. */
describeReal("a signal", () => {
  let host: BuildHost;
  let ways: BothWays;
  beforeAll(async () => {
    host = await BuildHost.start();
    ways = await openBothWays(host, host.emptyFolder());
  });
  afterAll(() => host?.stop());

  /** @param pid of the command itself, on both sides */
  type Act = (running: Running, pid: number, output: Output) => unknown;

  /** Runs a script here and there; once it has got as far as to say its pid, something happens to it. */
  async function bothAfter(act: Act, setUp: string, script: string) {
    const run = async (start: BothWays["locally"]): Promise<Ending & { output: string }> => {
      const running = start({ argv: ["sh", "-c", `${setUp}; echo $$; ${script}`] });
      running.stderr.resume();
      const output = new Output(running.stdout);
      await running.started();
      await act(running, Number(await output.line()), output);
      return { output: (await output.rest()).toString(), ...(await running.ended) };
    };
    const [local, remote] = await Promise.all([run(ways.locally), run(ways.remotely)]);
    return { local, remote };
  }

  const FORWARDED = ["SIGTERM", "SIGINT", "SIGHUP"] as const;
  const wait = "while :; do sleep 0.02; done";

  it.each(FORWARDED)("%s to the wrapper ends a command that does not care", async (name) => {
    const { local, remote } = await bothAfter((running) => running.kill(name), ":", "exec sleep 1000");
    expect(remote).toEqual(local);
    expect(remote).toEqual({ code: null, signal: name, output: "" });
  });

  it.each(FORWARDED)("%s to the wrapper can be trapped, and the command may end well", async (name) => {
    const trap = `trap 'echo trapped; exit 0' ${name.slice(3)}`;
    const { local, remote } = await bothAfter((running) => running.kill(name), trap, wait);
    expect(remote).toEqual(local);
    expect(remote).toEqual({ code: 0, signal: null, output: "trapped\n" });
  });

  it("to the wrapper may come more than once", async () => {
    const act: Act = async (running, _pid, output) => {
      for (let count = 1; count <= 3; count += 1) {
        running.kill("SIGTERM");
        expect(await output.line()).toBe(`trapped ${count}`);
      }
      running.stdin.end("done\n");
    };
    const script = "while [ $n -lt 3 ]; do sleep 0.02; done; read line; echo $line; exit 21";
    const { local, remote } = await bothAfter(act, "n=0; trap 'n=$((n+1)); echo trapped $n' TERM", script);
    expect(remote).toEqual(local);
    expect(remote).toEqual({ code: 21, signal: null, output: "done\n" });
  });

  it("of any kind can be sent by the operation, which returns when the command is gone", async () => {
    const names = ["HUP", "INT", "QUIT", "ILL", "ABRT", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM", "XCPU"];
    const results = await forEach(names, 4, async (short) => {
      const name = `SIG${short}` as NodeJS.Signals;
      const act: Act = async (running, pid) => {
        await running.signal(name);
        expect([name, isRunning(pid)]).toEqual([name, false]);
      };
      return { name, ...(await bothAfter(act, "ulimit -c 0", "exec sleep 1000")) };
    });
    for (const { name, local, remote } of results) {
      expect(remote).toEqual(local);
      expect(remote).toEqual({ code: null, signal: name, output: "" });
    }
  });

  it("sent by the operation ends the group, and a trap may decide how", async () => {
    const act: Act = (running) => running.signal("SIGTERM");
    const { local, remote } = await bothAfter(act, "sleep 1000 & trap 'echo trapped; exit 3' TERM", wait);
    expect(remote).toEqual(local);
    expect(remote).toEqual({ code: 3, signal: null, output: "trapped\n" });
  });

  it("that stops the command stops nothing else, and the command goes on where it was", async () => {
    const act: Act = async (running, pid) => {
      process.kill(pid, "SIGSTOP");
      await expect.poll(() => isStopped(pid)).toBe(true);
      running.stdin.end("across the stop\n");
      // Nobody who only holds the descriptors can see it.
      expect(running.child.exitCode ?? running.child.signalCode).toBe(null);
      process.kill(pid, "SIGCONT");
    };
    const { local, remote } = await bothAfter(act, ":", "read line; echo $line; exit 4");
    expect(remote).toEqual(local);
    expect(remote).toEqual({ code: 4, signal: null, output: "across the stop\n" });
  });

  it("ends a command that was stopped: KILL at once, TERM when it goes on", async () => {
    const stopped: Act = async (_running, pid) => {
      process.kill(pid, "SIGSTOP");
      await expect.poll(() => isStopped(pid)).toBe(true);
    };
    const kill: Act = async (running, pid, output) => {
      await stopped(running, pid, output);
      await running.signal("SIGKILL");
    };
    const term: Act = async (running, pid, output) => {
      await stopped(running, pid, output);
      running.kill("SIGTERM");
      process.kill(pid, "SIGCONT");
    };
    const killed = await bothAfter(kill, ":", "read line");
    expect(killed.remote).toEqual(killed.local);
    const ended = await bothAfter(term, ":", "read line");
    expect(ended.remote).toEqual(ended.local);
    expect([killed.remote.signal, ended.remote.signal]).toEqual(["SIGKILL", "SIGTERM"]);
  });

  it("from somebody else on the host is reported like any other", async () => {
    const { local, remote } = await bothAfter((_running, pid) => process.kill(pid, "SIGUSR2"), ":", "read line");
    expect(remote).toEqual(local);
    expect(remote).toEqual({ code: null, signal: "SIGUSR2", output: "" });
  });

  it("that has no name in Node is not an exit with 0, which is what a local parent would be told", async () => {
    const client = host.client();
    await client.create("realtime", { kind: "directory", path: host.emptyFolder() });
    const argv = ["sh", "-c", "echo output; kill -35 $$"];
    // One after another: the end of another command in the same moment can hide it.
    for (let count = 0; count < 10; count += 1) {
      const { events, code, stdout } = await client.execute("realtime", argv, { env: { PATH } });
      expect([events, code, stdout.toString()]).toEqual([lifecycle(null, "SIG35"), 128 + 35, "output\n"]);
    }
  });
});

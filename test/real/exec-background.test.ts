import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { LINGER_MS } from "../../remote-agent/execution.ts";
import { BuildHost } from "../support/build-host.ts";
import { isRunning, untilGone } from "../support/processes.ts";
import { describeReal } from "../support/requirements.ts";
import type { Exec, RuntimeClient } from "../support/runtime.ts";
import { describeBytes, lifecycle, Output, PATH } from "../support/side-by-side.ts";

/** Processes that a command leaves behind, with its outputs in their hands. */
describeReal("a command that leaves a process in the background", () => {
  let host: BuildHost;
  let client: RuntimeClient;
  beforeAll(async () => {
    host = await BuildHost.start();
    client = host.client();
    await client.create("w", { kind: "directory", path: host.emptyFolder() });
  });
  afterAll(() => host?.stop());

  const MEBIBYTE = 1024 * 1024;
  /** For a machine that is busy with other things. Milliseconds. */
  const MARGIN_MS = 3000;
  const start = (script: string, ...words: string[]): Exec =>
    client.exec("w", { argv: ["sh", "-c", script, "sh", ...words], env: { PATH }, collectOutput: false });

  it.concurrent.each([
    ["is silent", "sleep 1000 &"],
    ["goes on writing", "(while :; do echo noise; sleep 0.02; done) &"],
    ["floods its output", "yes &"],
  ])("ends when itself ends and a bound later, and the process that %s lives on", async (_what, background) => {
    const exec = start(`${background} echo $! >&2; exit 3`);
    exec.child.stdout!.resume();
    const begun = performance.now();
    const { code, stderr, events } = await exec.result();
    expect(performance.now() - begun).toBeLessThan(LINGER_MS + MARGIN_MS);
    expect(code).toBe(3);
    expect(events).toEqual(lifecycle(3, null));
    const left = Number(stderr);
    // It would notice a closed output at its next write.
    await setTimeout(300);
    expect(isRunning(left)).toBe(true);
    process.kill(left, "SIGKILL");
  });

  it.concurrent("loses nothing of its own output, however late it is read", async () => {
    const file = host.path("own");
    const bytes = randomBytes(3 * MEBIBYTE);
    writeFileSync(file, bytes);
    const exec = start(`echo $$ >&2; sleep 1000 & cat "$1"; exit 4`, file);
    await setTimeout(1.25 * LINGER_MS);
    const output = new Output(exec.child.stdout!);
    expect(describeBytes(await output.rest())).toBe(describeBytes(bytes));
    expect((await exec.result()).code).toBe(4);
  });

  it("can be ended with all that it started after its input has ended, by any way to signal it", async () => {
    const ways = {
      operation: (exec: Exec) => client.signal("w", exec.execId, "SIGTERM"),
      wrapper: (exec: Exec) => exec.child.kill("SIGTERM"),
    };
    for (const signal of Object.values(ways)) {
      const exec = start("sh -c 'sleep 1000 & echo $!; wait' & cat; echo at the end; wait");
      const output = new Output(exec.child.stdout!);
      const grandchild = Number(await output.line());
      exec.stdin.end();
      expect(await output.line()).toBe("at the end");
      await signal(exec);
      await untilGone(grandchild);
      const { code, signal: ending } = await exec.result();
      expect({ code, ending }).toEqual({ code: null, ending: "SIGTERM" });
    }
  });
});

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { endAgents } from "../support/processes.ts";
import { describeReal } from "../support/requirements.ts";
import { RuntimeClient } from "../support/runtime.ts";
import { startTargets, type TestTarget } from "../support/targets.ts";

/**
 * The whole job against every target: the sshd of this machine, or with PASEO_TEST_TARGETS=compose the containers of
 * docker-compose.yml. Nothing here looks at the host but through the runtime, since it may be another machine.
 */
describeReal("every target", () => {
  const folder = mkdtempSync(join(tmpdir(), "psr-target-"));
  const source = join(folder, "source");
  const root = join(folder, "root");
  let targets: TestTarget[] = [];

  beforeAll(async () => {
    mkdirSync(source);
    writeFileSync(join(source, "greeting.txt"), "from here\n");
    targets = await startTargets();
  });

  afterAll(async () => {
    // Ends what runs on this machine; a container's agent ends by itself.
    await endAgents(root);
    for (const target of targets) await target.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  it("creates a workspace, runs a command and a terminal in it, signals, and destroys it", async () => {
    for (const target of targets) {
      const client = new RuntimeClient(target.options({ root, helper: false }));
      try {
        await wholeJob(client, source, target.name !== "alpine");
      } catch (error) {
        throw new Error(`on ${target.name}`, { cause: error });
      } finally {
        await client.close();
      }
    }
  });
});

async function wholeJob(client: RuntimeClient, source: string, hasTerminals: boolean): Promise<void> {
  const created = await client.create("whole-job", { kind: "directory", path: source });
  expect(created.materializedFreshContent).toBe(true);
  const env = created.state.lifecycleEnvironment;

  const read = await client.execute("whole-job", ["sh", "-c", "cat greeting.txt; cat >&2; exit 3"], {
    env,
    input: "in\n",
  });
  expect(read).toMatchObject({ code: 3, stdout: Buffer.from("from here\n"), stderr: Buffer.from("in\n") });

  if (hasTerminals) await terminalJob(client, env);
  await signalJob(client, env);

  await client.destroy("whole-job");
  expect(await client.inspect("whole-job")).toEqual({ status: "missing" });
}

async function terminalJob(client: RuntimeClient, env: Record<string, string>): Promise<void> {
  const terminal = client.exec("whole-job", {
    argv: ["sh", "-c", "stty size; read line; stty size; echo $line"],
    env,
    stdio: { kind: "pty", rows: 30, cols: 100, term: "xterm" },
  });
  await terminal.outputContains("30 100");
  terminal.control.write(`${JSON.stringify({ type: "resize", protocolVersion: 1, id: 1, rows: 50, cols: 132 })}\n`);
  await terminal.event((event) => event.type === "resized");
  terminal.stdin.write("typed\r");
  await terminal.outputContains("50 132");
  expect((await terminal.result()).events.map((event) => event.type)).toEqual(["started", "resized", "eof", "exit"]);
}

async function signalJob(client: RuntimeClient, env: Record<string, string>): Promise<void> {
  const sleeper = client.exec("whole-job", { argv: ["sleep", "600"], env });
  await sleeper.started();
  expect(await client.signal("whole-job", sleeper.execId, "SIGKILL")).toMatchObject({ code: 0, stderr: "" });
  expect(await sleeper.result()).toMatchObject({ code: null, signal: "SIGKILL" });
}

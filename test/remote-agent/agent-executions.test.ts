import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { FrameType, StreamId } from "../../src/wire/frame.ts";
import { bundleProgram } from "../support/bundle.ts";
import { isRunning, untilGone } from "../support/processes.ts";
import { AgentProcess, INSTANCE } from "./agent-process.ts";
import { ask, Client, execRequest, newSession, statusOf } from "./client.ts";

const program = bundleProgram("remote-agent/main.ts");
let agent: AgentProcess;
beforeAll(async () => {
  const cleanUps: (() => void)[] = [];
  agent = await AgentProcess.start(program, { cleanUp: (action) => cleanUps.push(action) });
  return () => {
    for (const action of cleanUps) action();
  };
});

/** Runs a command to its end as an honest client does. @returns the client, with everything that came */
async function run(argv: string[], workspaceId = agent.addWorkspace(), of = agent): Promise<Client> {
  const client = (await Client.open(of)).request(execRequest(workspaceId, argv));
  client.connection.sendMark(FrameType.End, StreamId.Stdin, 0);
  await client.event("exit");
  finish(client);
  await client.end();
  return client;
}

function finish(client: Client): void {
  client.connection.sendJson(FrameType.EventAcknowledge, { seq: client.events.at(-1)!.seq });
  client.connection.end();
}

/** Waits until the agent has forgotten all executions. */
async function untilForgotten(of = agent): Promise<void> {
  while ((await statusOf(of)).executions > 0) await new Promise((resolve) => setTimeout(resolve, 10));
}

async function refused(workspaceId: string, argv: string[], changes: object = {}): Promise<unknown> {
  return await ask(agent, execRequest(workspaceId, argv, changes)).catch((error) => error);
}

describe("executions of an agent", () => {
  it("run, and leave nothing but their identity", async () => {
    const workspace = agent.addWorkspace();
    const client = await run(["/bin/sh", "-c", "echo out; echo err >&2; exit 3"], workspace);
    expect(client.output().toString()).toBe("out\n");
    expect(client.output(StreamId.Stderr).toString()).toBe("err\n");
    expect(client.events.map(({ body }) => body.type)).toEqual(["started", "exit"]);
    expect(client.events[1]!.body).toEqual({ type: "exit", code: 3, signal: null });
    await untilForgotten();
    expect(readdirSync(join(agent.folderOf(workspace), "executions", "live"))).toEqual([]);
  });

  it("are started once when the client comes over two links before either is answered", async () => {
    const fresh = await AgentProcess.start(program);
    const request = execRequest(fresh.addWorkspace(), ["/bin/sh", "-c", "echo once; cat"]);
    // The agent is still asking the login shell for its environment.
    const clients = await Promise.all([Client.open(fresh), Client.open(fresh)]);
    // Nothing of what is sent over the first link arrives.
    clients[0]!.connection.pause();
    for (const client of clients) {
      client.request(request);
      client.connection.sendData(StreamId.Stdin, 0, Buffer.from("input\n"));
      client.connection.sendMark(FrameType.End, StreamId.Stdin, 6);
    }
    const last = clients[1]!;
    expect(await last.event("exit")).toEqual({ type: "exit", code: 0, signal: null });
    // What had ended before the second link came is told first.
    await last.until(() => last.output().toString() === "once\ninput\n");
    finish(last);
    await untilForgotten(fresh);
    expect(fresh.log).toBe("");
  });

  it("are not started for a session that was abandoned, though its request comes late", async () => {
    const workspace = agent.addWorkspace();
    const session = newSession();
    await ask(agent, { op: "abandon", session });
    expect(await refused(workspace, ["/bin/sleep", "60"], { session })).toMatchObject({ code: "cancelled" });
    expect((await statusOf(agent)).executions).toBe(0);
    await run(["/bin/true"], workspace);
  });

  it("end when they are abandoned, also with the link down, and are forgotten", async () => {
    const request = execRequest(agent.addWorkspace(), [
      "/bin/sh",
      "-c",
      "trap 'echo bye' HUP; echo $$; sleep 60 & wait",
    ]);
    const client = (await Client.open(agent)).request(request);
    await client.until(() => client.output().includes("\n"));
    const pid = Number(client.output().toString());
    client.socket.destroy();
    await ask(agent, { op: "abandon", session: request.session });
    await untilGone(pid);
    await untilForgotten();
  });

  it("end when their client does not come back within the window, and are forgotten", async () => {
    const client = (await Client.open(agent)).request(
      execRequest(agent.addWorkspace(), ["/bin/sh", "-c", "echo $$; exec sleep 60"], { reconnectWindowMs: 50 }),
    );
    await client.until(() => client.output().includes("\n"));
    const pid = Number(client.output().toString());
    client.socket.destroy();
    await untilGone(pid);
    await untilForgotten();
  });

  it.each<[string, string[], object, string]>([
    ["a program that is missing", ["no-such-program"], {}, "program-not-found"],
    ["a working folder outside", ["/bin/true"], { cwd: "../.." }, "cwd-outside-workspace"],
    ["an argument that is too long for the kernel", ["/bin/true", "x".repeat(200_000)], {}, "spawn-failed"],
    ["an environment that is too large for the kernel", ["/bin/true"], { env: huge() }, "spawn-failed"],
    ["a NUL in an argument", ["/bin/true", "a\0b"], {}, "spawn-failed"],
    ["an interpreter that is missing", ["./script"], {}, "spawn-failed"],
    ["a terminal where there is no module for it", ["/bin/true"], { stdio: pty() }, "terminal-unavailable"],
    ["a resumption of what is not there", ["/bin/true"], { resume: resumption() }, "execution-lost"],
  ])("are refused with a reason: %s", async (_name, argv, changes, code) => {
    const workspace = agent.addWorkspace();
    writeFileSync(join(agent.folderOf(workspace), "content", "script"), "#!/no/such/interpreter\n", { mode: 0o755 });
    const error = await refused(workspace, argv, changes);
    expect(error).toMatchObject({ code });
    expect((error as Error).message).not.toContain("\0");
    expect((await statusOf(agent)).executions).toBe(0);
    await run(["/bin/true"], workspace);
  });

  it("are ended again when their record cannot be written, and the client is told why", async () => {
    const workspace = agent.addWorkspace();
    const executions = join(agent.folderOf(workspace), "executions");
    writeFileSync(executions, "a file where the folder should be");
    expect(await refused(workspace, ["/bin/sleep", "60"])).toMatchObject({
      code: "root-not-writable",
      message: expect.stringContaining("The record of an execution cannot be written"),
    });
    await untilForgotten();
    rmSync(executions);
    await run(["/bin/true"], workspace);
    agent.log = "";
  });

  it("tell their exit also when the end cannot be recorded; the identity stays used", async () => {
    const workspace = agent.addWorkspace();
    const request = execRequest(workspace, ["/bin/cat"]);
    const client = (await Client.open(agent)).request(request);
    await client.event("started");
    // A folder where the file of ended identities should be.
    const digest = createHash("sha256").update(request.execId).digest("hex");
    const bucket = join(agent.folderOf(workspace), "executions", "ended", digest.slice(0, 2));
    mkdirSync(bucket, { recursive: true });
    client.connection.sendMark(FrameType.End, StreamId.Stdin, 0);
    expect(await client.event("exit")).toEqual({ type: "exit", code: 0, signal: null });
    finish(client);
    await untilForgotten();
    expect(agent.log).toContain("EISDIR");
    agent.log = "";
    rmSync(bucket, { recursive: true });
    await expect(ask(agent, { ...request, session: newSession() })).rejects.toMatchObject({ code: "exec-id-reused" });
  });

  it("of an agent that was killed are ended by the next one, and never taken for exited", async () => {
    const first = await AgentProcess.start(program);
    const workspace = first.addWorkspace();
    const request = execRequest(workspace, ["/bin/sh", "-c", "trap '' HUP TERM; sleep 60 & echo $$ $!; wait"]);
    const client = (await Client.open(first)).request(request);
    await client.until(() => client.output().includes("\n"));
    const pids = client.output().toString().split(" ").map(Number);
    await run(["/bin/true"], workspace, first);
    first.child.kill("SIGKILL");
    await first.exited;
    expect(pids.every(isRunning)).toBe(true);
    const second = await AgentProcess.start(program, { root: first.root });
    await untilGone(...pids);
    await expect(ask(second, { ...request, resume: resumption() })).rejects.toMatchObject({ code: "execution-lost" });
    await expect(ask(second, request)).rejects.toMatchObject({ code: "exec-id-reused" });
    const live = join(second.folderOf(workspace), "executions", "live");
    expect(readdirSync(live)).toEqual([]);
    const ended = join(second.folderOf(workspace), "executions", "ended");
    const lines = readdirSync(ended).map((name) => readFileSync(join(ended, name), "utf8"));
    expect(lines.join("")).toContain(`${JSON.stringify([request.execId, "lost"])}\n`);
    // A signal to what is gone has nothing left to do.
    expect(
      await ask(second, { op: "signal", ...owned(workspace), execId: request.execId, signal: "SIGKILL" }),
    ).toMatchObject({ kind: "lifecycle" });
    await run(["/bin/true"], workspace, second);
  });

  it("that were never there take no signal", async () => {
    const workspace = agent.addWorkspace();
    const signal = (changes: object) =>
      ask(agent, { op: "signal", ...owned(workspace), execId: "never", signal: "SIGTERM", ...changes });
    await expect(signal({})).rejects.toMatchObject({ code: "execution-unknown" });
    await expect(signal({ signal: "SIGNOTHING" })).rejects.toMatchObject({ code: "signal-unknown" });
    await expect(signal({ workspaceId: "none" })).rejects.toMatchObject({ code: "workspace-missing" });
    await expect(signal({ runtimeInstanceId: "other" })).rejects.toMatchObject({ code: "workspace-owned-elsewhere" });
  });

  it("leave the agent's log empty", () => {
    expect(agent.log).toBe("");
  });
});

function owned(workspaceId: string): { workspaceId: string; runtimeInstanceId: string } {
  return { workspaceId, runtimeInstanceId: INSTANCE };
}

const pty = () => ({ kind: "pty", rows: 24, cols: 80 });
const resumption = () => ({ stdout: 0, stderr: 0, eventSeq: 0 });

/** Four megabytes in pieces that the kernel would take one by one. */
function huge(): Record<string, string> {
  return Object.fromEntries(Array.from({ length: 40 }, (_, index) => [`NAME_${index}`, "x".repeat(100_000)]));
}

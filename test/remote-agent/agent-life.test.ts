import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { hostname } from "node:os";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { unfinishedName } from "../../remote-agent/unfinished.ts";
import { FrameType, StreamId } from "../../src/wire/frame.ts";
import { bundleProgram } from "../support/bundle.ts";
import { AgentProcess } from "./agent-process.ts";
import { ask, Client, execRequest, statusOf } from "./client.ts";

const program = bundleProgram("remote-agent/main.ts");

const runFolder = (agent: AgentProcess) => readdirSync(dirname(agent.socketPath)).sort();

describe("the life of an agent", () => {
  it("serves below a private root, and tells who it is", async () => {
    const agent = await AgentProcess.start(program);
    expect(agent.answer).toEqual({ type: "ready", pid: agent.pid });
    expect(await statusOf(agent)).toEqual({
      kind: "status",
      pid: agent.pid,
      build: "build-of-the-tests",
      workspaces: 0,
      executions: 0,
      startedAt: expect.stringMatching(/^\d{4}-/),
    });
    expect(statSync(agent.root).mode & 0o777).toBe(0o700);
    expect(statSync(join(agent.root, "run")).mode & 0o777).toBe(0o700);
    expect(runFolder(agent)).toEqual([`agent.${agent.pid}.sock`, "agent.json", "agent.sock"]);
    expect(JSON.parse(readFileSync(join(agent.root, "run", "agent.json"), "utf8"))).toMatchObject({ pid: agent.pid });
  });

  it("ends when it is idle, and takes its sockets with it", async () => {
    const agent = await AgentProcess.start(program, { idleMs: 200 });
    expect(await agent.exited).toEqual([0, null]);
    expect(runFolder(agent)).toEqual(["agent.json"]);
    expect(agent.log).toBe("");
  });

  it("does not end while somebody is connected or something runs", async () => {
    const agent = await AgentProcess.start(program, { idleMs: 400 });
    const workspace = agent.addWorkspace();
    const client = (await Client.open(agent)).request(execRequest(workspace, ["/bin/cat"]));
    await client.event("started");
    const spare = await agent.connect();
    client.connection.destroy();
    expect((await statusOf(agent)).executions).toBe(1);
    spare.destroy();
    // More than its idle time later it is still there for its execution.
    await new Promise((resolve) => setTimeout(resolve, 600));
    expect((await statusOf(agent)).executions).toBe(1);
    await ask(agent, {
      op: "signal",
      workspaceId: workspace,
      runtimeInstanceId: "instance-1",
      execId: execIdOf(agent, workspace),
      signal: "SIGKILL",
    });
    expect(agent.child.exitCode).toBeNull();
  });

  it("gives way to one that serves already", async () => {
    const first = await AgentProcess.start(program);
    const second = await AgentProcess.start(program, { root: first.root });
    expect(second.answer).toMatchObject({ type: "other" });
    expect(await second.exited).toEqual([0, null]);
    expect((await statusOf(first)).pid).toBe(first.pid);
    expect(runFolder(first)).toEqual([`agent.${first.pid}.sock`, "agent.json", "agent.sock"]);
  });

  it("takes the place of one that was killed", async () => {
    const first = await AgentProcess.start(program);
    first.child.kill("SIGKILL");
    await first.exited;
    const second = await AgentProcess.start(program, { root: first.root });
    expect(second.answer).toMatchObject({ type: "ready" });
    expect((await statusOf(second)).pid).toBe(second.pid);
    expect(runFolder(second)).toEqual([`agent.${second.pid}.sock`, "agent.json", "agent.sock"]);
  });

  it("ends soon after its root folder is gone, also while spares are open", async () => {
    const agent = await AgentProcess.start(program);
    const spares = await Promise.all(Array.from({ length: 4 }, () => Client.open(agent)));
    await statusOf(agent);
    rmSync(agent.root, { recursive: true });
    await Promise.all(spares.map((spare) => spare.end()));
    expect(await agent.exited).toEqual([0, null]);
    expect(existsSync(agent.root)).toBe(false);
    expect(agent.log).toBe("");
  });

  it("finishes what it runs after another build has taken its name, and then ends", async () => {
    const old = await AgentProcess.start(program);
    const workspace = old.addWorkspace();
    const client = (await Client.open(old)).request(execRequest(workspace, ["/bin/cat"]));
    await client.event("started");
    const spare = await Client.open(old);
    const fresh = await AgentProcess.start(program, { root: old.root, takeOver: true, build: "another" });
    expect(fresh.answer).toMatchObject({ type: "ready" });
    expect(await statusOf(fresh)).toMatchObject({ pid: fresh.pid, build: "another" });
    client.connection.sendData(StreamId.Stdin, 0, Buffer.from("still there\n"));
    await client.until(() => client.output().toString() === "still there\n");
    await spare.end();
    client.connection.sendMark(FrameType.End, StreamId.Stdin, 12);
    await client.event("exit");
    for (const { seq } of client.events) client.connection.sendJson(FrameType.EventAcknowledge, { seq });
    await client.end();
    client.connection.destroy();
    expect(await old.exited).toEqual([0, null]);
    expect((await statusOf(fresh)).pid).toBe(fresh.pid);
  });

  it("says why when it cannot start", async () => {
    const agent = await AgentProcess.start(program);
    agent.child.kill("SIGKILL");
    await agent.exited;
    renameSync(join(agent.root, "run"), join(agent.root, "elsewhere"));
    writeFileSync(join(agent.root, "run"), "");
    const next = await AgentProcess.start(program, { root: agent.root });
    expect(next.answer).toMatchObject({ type: "error", error: { code: "runtime-folder-unsafe" } });
    expect(await next.exited).toEqual([1, null]);
  });

  it("clears away what an unfinished create has left, and empties old trash", async () => {
    const first = await AgentProcess.start(program, { idleMs: 1 });
    await first.exited;
    mkdirSync(join(first.root, "workspaces", ".new-0123"), { recursive: true });
    writeFileSync(join(first.root, "workspaces", ".new-0123", "half"), "");
    const next = await AgentProcess.start(program, { root: first.root });
    expect(readdirSync(join(next.root, "workspaces"))).toEqual([]);
    expect(await statusOf(next)).toMatchObject({ workspaces: 0 });
  });

  it("leaves alone what another live agent is making, here or on a host that shares the root", async () => {
    const first = await AgentProcess.start(program, { idleMs: 1 });
    await first.exited;
    const here = createHash("sha256").update(hostname()).digest("hex").slice(0, 8);
    const ended = spawnSync("true").pid;
    const names = [
      unfinishedName(),
      `.new-${here}-${ended}-00000000-01`,
      ".new-00000000-1-00000000-02",
      ".new-00000000-1-00000000-03",
      // Of a process that is gone, whose pid another one has by now.
      `.new-${here}-${process.pid}-00000000-04`,
    ];
    for (const name of names) mkdirSync(join(first.root, "workspaces", name), { recursive: true });
    const then = new Date(Date.now() - 8 * 24 * 60 * 60 * 1000);
    utimesSync(join(first.root, "workspaces", names[3]!), then, then);
    const next = await AgentProcess.start(program, { root: first.root });
    expect(readdirSync(join(next.root, "workspaces")).sort()).toEqual([names[0], names[2]].sort());
  });
});

/** The id of the one execution that is recorded as live. */
function execIdOf(agent: AgentProcess, workspaceId: string): string {
  const folder = join(agent.folderOf(workspaceId), "executions", "live");
  const [name] = readdirSync(folder);
  return JSON.parse(readFileSync(join(folder, name!), "utf8")).execId;
}

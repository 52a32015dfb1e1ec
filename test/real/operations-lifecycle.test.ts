import { existsSync, readFileSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { BuildHost, brokerPids, failureCode } from "../support/build-host.ts";
import { isRunning, untilGone } from "../support/processes.ts";
import { describeReal } from "../support/requirements.ts";
import type { Exec, RuntimeClient } from "../support/runtime.ts";
import { commit, git, write } from "../workspace/fixture.ts";

describeReal("the life of a workspace", () => {
  let host: BuildHost;
  let client: RuntimeClient;
  let url: string;

  beforeAll(async () => {
    host = await BuildHost.start();
    client = host.client();
    const repository = host.path("repository");
    write(join(repository, "file"), "content\n");
    git(repository, "init", "-q", "-b", "main");
    commit(repository);
    url = `file://${repository}`;
  });
  afterAll(() => host?.stop());

  async function create(owner = client): Promise<string> {
    const id = host.newName();
    await owner.create(id, { kind: "git", url, revision: "" });
    return id;
  }

  /** A command that says the pid of its process and then runs until it is ended. */
  async function running(id: string): Promise<{ exec: Exec; pid: number }> {
    const exec = client.exec(id, { argv: ["sh", "-c", "echo $$; exec sleep 1000"] });
    await exec.outputContains("\n");
    return { exec, pid: Number(exec.output) };
  }

  it("says after any crash what is there", async () => {
    const [ready, paused] = [await create(), await create()];
    await client.ok(["pause", "--workspace-id", paused]);
    const before = [await client.inspect(ready), await client.inspect(paused), await client.inspect("never")];
    expect(before.map((inspection) => inspection.status)).toEqual(["ready", "paused", "missing"]);

    const [broker] = brokerPids(client);
    process.kill(broker!, "SIGKILL");
    await untilGone(broker!);
    await host.killAgents();
    expect([await client.inspect(ready), await client.inspect(paused), await client.inspect("never")]).toEqual(before);

    // The same with the broker left alone, whose connections to the agent are then dead.
    await host.killAgents();
    expect([await client.inspect(ready), await client.inspect(paused), await client.inspect("never")]).toEqual(before);
    expect(host.agentPids()).toHaveLength(1);
  });

  it("says so when the content is gone", async () => {
    const id = await create();
    const { placement } = await client.inspect(id);
    await client.execute(id, ["sh", "-c", "mv ../content ../away"]);
    expect(existsSync(placement.cwd)).toBe(false);
    expect(await client.inspect(id)).toEqual({
      status: "error",
      message: expect.stringMatching(/^The content of the workspace .* is gone .* \[workspace-broken\]$/),
    });
    expect(failureCode(await client.operation(["resume", "--workspace-id", id]))).toBe("workspace-broken");
    await client.destroy(id);
    expect(await client.inspect(id)).toEqual({ status: "missing" });
  });

  it("pauses: ends what runs, refuses what comes, keeps everything; resumes; each also twice", async () => {
    const id = await create();
    await client.execute(id, ["sh", "-c", "echo kept >kept"]);
    const { exec, pid } = await running(id);
    for (let time = 0; time < 2; time += 1) {
      expect(await client.ok(["pause", "--workspace-id", id])).toEqual({ type: "ok", protocolVersion: 1 });
      expect(isRunning(pid)).toBe(false);
    }
    expect(await exec.result()).toMatchObject({ code: null, signal: "SIGHUP" });
    expect(exec.events.map((event) => event.type)).toEqual(["started", "eof", "exit"]);
    expect(exec.events.at(-1)).toMatchObject({ code: null, signal: "SIGHUP" });

    const refused = await client.execute(id, ["true"]);
    expect(refused.code).not.toBe(0);
    expect(refused.events).toEqual([
      { type: "error", protocolVersion: 1, message: expect.stringContaining("[workspace-paused]") },
    ]);
    const paused = await client.inspect(id);
    expect(paused).toMatchObject({ status: "paused", state: { workspaceId: id, lifecycle: "paused" } });

    for (let time = 0; time < 2; time += 1) {
      expect(await client.ok(["resume", "--workspace-id", id])).toEqual({
        type: "state",
        protocolVersion: 1,
        state: { ...paused.state, lifecycle: "ready" },
        placement: paused.placement,
      });
    }
    expect((await client.execute(id, ["cat", "kept"])).stdout.toString()).toBe("kept\n");
  });

  it("pauses a command that ignores the hang-up as well", async () => {
    const id = await create();
    const exec = client.exec(id, { argv: ["sh", "-c", "trap '' HUP; echo ready; while :; do sleep 1; done"] });
    await exec.outputContains("ready\n");
    await client.ok(["pause", "--workspace-id", id]);
    expect(await exec.result()).toMatchObject({ code: null, signal: "SIGKILL" });
  });

  it("destroys one workspace and what runs in it; unsaved work is kept in the trash, the rest is deleted", async () => {
    const [other, clean, worked] = [await create(), await create(), await create()];
    const { exec, pid } = await running(clean);
    const kept = await running(other);
    await client.execute(worked, ["sh", "-c", "echo precious >work"]);
    const trashed = host.trash();

    for (const id of [clean, worked, clean, worked]) {
      expect(await client.ok(["destroy", "--workspace-id", id])).toEqual({ type: "ok", protocolVersion: 1 });
      expect(await client.inspect(id)).toEqual({ status: "missing" });
    }
    expect(isRunning(pid)).toBe(false);
    expect(await exec.result()).toMatchObject({ signal: "SIGHUP" });
    const added = host.trash().filter((name) => !trashed.includes(name));
    expect(added).toHaveLength(1);
    expect(readFileSync(join(host.root, "trash", added[0]!, "content", "work"), "utf8")).toBe("precious\n");

    expect(isRunning(kept.pid)).toBe(true);
    expect((await client.execute(other, ["cat", "file"])).stdout.toString()).toBe("content\n");
    await client.signal(other, kept.exec.execId, "SIGKILL");
    expect(await kept.exec.result()).toMatchObject({ signal: "SIGKILL" });
    // The same id is a new workspace now.
    expect((await client.create(clean, { kind: "git", url, revision: "" })).materializedFreshContent).toBe(true);
  });

  describe("reconcile", () => {
    it("moves this installation's orphans to the trash, with nothing running, and leaves all others", async () => {
      const mine = host.client();
      const stranger = mine.with({ runtimeInstanceId: "another installation" });
      const [known, orphan, foreign] = [await create(mine), await create(mine), await create(stranger)];
      const exec = mine.exec(orphan, { argv: ["sleep", "1000"] });
      await exec.started();
      const trashed = host.trash().length;

      for (let time = 0; time < 2; time += 1) {
        const answer = await mine.ok(["reconcile"], { workspaceIds: [known, "long gone"] });
        expect(answer).toEqual({ type: "ok", protocolVersion: 1 });
        expect((await mine.inspect(known)).status).toBe("ready");
        expect((await mine.inspect(orphan)).status).toBe("missing");
        expect((await stranger.inspect(foreign)).status).toBe("ready");
        expect(host.trash()).toHaveLength(trashed + 1);
      }
      expect(await exec.result()).toMatchObject({ signal: "SIGHUP" });

      const removed = await mine.operation(["reconcile"], { workspaceIds: [foreign] });
      expect(failureCode(removed)).toBe("workspace-owned-elsewhere");
      expect((await mine.inspect(known)).status).toBe("ready");
      expect((await stranger.inspect(foreign)).status).toBe("ready");

      expect(await mine.ok(["reconcile"])).toEqual({ type: "ok", protocolVersion: 1 });
      expect((await mine.inspect(known)).status).toBe("missing");
      expect((await stranger.inspect(foreign)).status).toBe("ready");
    });
  });

  it("deletes from the trash what is older than a week when an agent starts", async () => {
    const [old, recent] = ["old.1", "recent.1"].map((name) => join(host.root, "trash", name));
    for (const path of [old!, recent!]) write(join(path, "content", "file"), "x");
    await host.killAgents();
    const weekAgo = new Date(Date.now() - 8 * 24 * 3600 * 1000);
    utimesSync(old!, weekAgo, weekAgo);
    await client.inspect("anything");
    await expect.poll(() => existsSync(old!)).toBe(false);
    expect(existsSync(recent!)).toBe(true);
  });
});

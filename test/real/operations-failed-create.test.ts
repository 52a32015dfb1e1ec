import { mkdirSync, statSync, truncateSync, watch, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { BuildHost, failureCode, namesIn } from "../support/build-host.ts";
import { describeReal } from "../support/requirements.ts";
import type { RuntimeClient } from "../support/runtime.ts";
import { commit, git, write } from "../workspace/fixture.ts";

/** More than is sent until a test has noticed that it began. */
const LARGE_BYTES = 4 * 1024 ** 3;

describeReal("a create that fails", () => {
  let host: BuildHost;
  let client: RuntimeClient;
  let url: string;

  beforeAll(async () => {
    host = await BuildHost.start();
    client = host.client();
    const repository = host.path("repository");
    write(join(repository, "folder", "file"), "x\n");
    git(repository, "init", "-q", "-b", "main");
    commit(repository);
    url = `file://${repository}`;
  });
  afterAll(() => host?.stop());
  afterEach(() => expect(host.workspaceFolders()).toEqual([]));

  it.each([
    ["an unknown revision", { revision: "nowhere" }, {}, "revision-unknown"],
    ["a missing subdirectory", { revision: "", subdirectory: "nowhere" }, {}, "subdirectory-missing"],
    ["a folder that leads out", { revision: "" }, { relativeCwd: "folder/../.." }, "cwd-outside-workspace"],
    [
      "a repository that is not there",
      { url: "file:///nowhere/repository.git", revision: "" },
      {},
      "git-source-unreachable",
    ],
  ])("leaves nothing for %s", async (_what, source, placement, code) => {
    const input = client.createInput("failing", { kind: "git", url, ...source }, { kind: "existing", ...placement });
    expect(failureCode(await client.operation(["create", "--workspace-id", "failing"], input))).toBe(code);
    expect(await client.inspect("failing")).toEqual({ status: "missing" });
    // Paseo cleans up after a failure.
    await client.destroy("failing");
    expect(host.trash()).toEqual([]);
  });

  /** Sparse, so it costs nothing here; on its way it takes long enough to be interrupted. */
  function largeFolder(bytes = LARGE_BYTES): string {
    const path = host.path(host.newName("large"));
    mkdirSync(path);
    writeFileSync(join(path, "zeros"), "");
    truncateSync(join(path, "zeros"), bytes);
    return path;
  }

  /** Resolves when an agent has begun to fill a folder with the large file. */
  async function uploading(): Promise<void> {
    await changed(() => host.workspaceFolders().some((name) => name.startsWith(".new-")));
    const unfinished = join(host.root, "workspaces", host.workspaceFolders()[0]!);
    await expect.poll(() => namesIn(join(unfinished, "content")), { interval: 5 }).toEqual(["zeros"]);
  }

  async function changed(condition: () => boolean): Promise<void> {
    const watcher = watch(join(host.root, "workspaces"));
    try {
      while (!condition()) await new Promise((resolve) => watcher.once("change", resolve));
    } finally {
      watcher.close();
    }
  }

  it("leaves nothing when the wrapper is killed in the middle of an upload", async () => {
    await client.inspect("large");
    const input = client.createInput("large", { kind: "directory", path: largeFolder() });
    const wrapper = client.start(["create", "--workspace-id", "large"], JSON.stringify(client.request(input)));
    await uploading();
    process.kill(-wrapper.pid, "SIGKILL");
    await changed(() => host.workspaceFolders().length === 0);
    expect((await wrapper.result).signal).toBe("SIGKILL");
    expect(await client.inspect("large")).toEqual({ status: "missing" });
  });

  it("is cleaned up and repeated by the next agent when the agent is killed in the middle of an upload", async () => {
    await client.inspect("large");
    const input = client.createInput("large", { kind: "directory", path: largeFolder() });
    const wrapper = client.start(["create", "--workspace-id", "large"], JSON.stringify(client.request(input)));
    await uploading();
    const [left] = host.workspaceFolders();
    await host.killAgents();
    await changed(() => host.workspaceFolders().some((name) => name !== left));
    expect(host.workspaceFolders()).not.toContain(left);
    process.kill(-wrapper.pid, "SIGKILL");
    await changed(() => host.workspaceFolders().length === 0);
  });

  it("is repeated when the connection is lost in the middle of an upload", async () => {
    const bytes = 256 * 1024 ** 2;
    await client.inspect("large");
    const created = client.create("large", { kind: "directory", path: largeFolder(bytes) });
    await uploading();
    host.sshd.killSessions();
    const { materializedFreshContent, placement } = await created;
    expect(materializedFreshContent).toBe(true);
    expect(statSync(join(placement.cwd, "zeros")).size).toBe(bytes);
    await client.destroy("large");
  });
});

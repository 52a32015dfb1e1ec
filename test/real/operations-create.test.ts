import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { userInfo } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { BuildHost, namesIn, outputOf } from "../support/build-host.ts";
import { describeReal } from "../support/requirements.ts";
import type { RuntimeClient } from "../support/runtime.ts";
import { publishUpstream, type Upstream } from "../support/upstream.ts";
import { commit, git, write } from "../workspace/fixture.ts";

describeReal("describe and create", () => {
  let host: BuildHost;
  let client: RuntimeClient;
  let url: string;
  let commits: Upstream["commits"];

  beforeAll(async () => {
    host = await BuildHost.start();
    client = host.client();
    ({ url, commits } = publishUpstream(host));
  });
  afterAll(() => host?.stop());

  /** A repository with one commit on `main`. */
  function repository(name: string): string {
    const path = host.path(name);
    mkdirSync(path, { recursive: true });
    git(path, "init", "-q", "-b", "main");
    write(join(path, "readme.txt"), "hello\n");
    commit(path);
    return path;
  }

  const inWorkspace = (id: string, ...argv: string[]) => outputOf(client, id, argv);

  it("describes itself without a host, a broker or any input", async () => {
    const cold = host.client();
    for (const args of [["describe"], ["--profile", "fast", "describe"]]) {
      expect(await cold.run(args)).toEqual({
        code: 0,
        signal: null,
        stdout: '{"protocolVersion":1,"modes":["pipes","pty"],"reconcile":true}\n',
        stderr: "",
      });
    }
    expect(namesIn(cold.brokerFolder)).toEqual([]);
    expect(host.logins()).toBe(0);
  });

  it.each([
    { revision: "", head: "main", branch: "main" },
    { revision: "feature", head: "feature", branch: "feature" },
    { revision: "v1", head: "first", branch: undefined },
    { revision: "the first commit", head: "first", branch: undefined },
  ] as const)("creates from a git URL at revision $revision", async ({ revision, head, branch }) => {
    const id = host.newName();
    const source = { kind: "git", url, revision: revision === "the first commit" ? commits.first : revision };
    const answer = await client.create(id, source);
    expect(answer).toMatchObject({
      type: "state",
      protocolVersion: 1,
      materializedFreshContent: true,
      state: { workspaceId: id, lifecycle: "ready" },
    });
    expect(answer.state.lifecycleEnvironment.PASEO_BRANCH_NAME).toBe(branch);
    expect(await inWorkspace(id, "pwd")).toBe(answer.placement.cwd);
    expect(await inWorkspace(id, "git", "rev-parse", "HEAD")).toBe(commits[head]);
    expect(await inWorkspace(id, "git", "branch", "--show-current")).toBe(branch ?? "");
    expect(await inWorkspace(id, "git", "status", "--porcelain")).toBe("");
    expect(await inWorkspace(id, "git", "remote", "get-url", "origin")).toBe(url);
  });

  it("makes a subdirectory the workspace root, and relativeCwd a folder below it", async () => {
    const sub = await client.create("sub", { kind: "git", url, revision: "", subdirectory: "app" });
    expect(sub.placement.cwd).toMatch(/\/app$/);
    expect(await inWorkspace("sub", "cat", "main.txt")).toBe("in the app");

    const relative = { kind: "existing", relativeCwd: "app" };
    const placed = await client.create("relative", { kind: "git", url, revision: "" }, relative);
    expect(placed.placement.cwd).toMatch(/\/app$/);
    expect(await inWorkspace("relative", "pwd")).toBe(placed.placement.cwd);
  });

  it("reproduces the uncommitted state of a local work tree", async () => {
    const path = repository("dirty");
    for (const name of ["changed", "staged", "both", "deleted", "moved", "script"])
      write(join(path, name), `${name}\n`);
    write(join(path, ".gitignore"), "ignored\n");
    commit(path);
    write(join(path, "changed"), "changed here\n");
    write(join(path, "staged"), "staged here\n");
    write(join(path, "both"), "staged first\n");
    write(join(path, "new staged"), "new\n");
    git(path, "mv", "moved", "moved away");
    git(path, "add", "staged", "both", "new staged");
    write(join(path, "both"), "then changed\n");
    rmSync(join(path, "deleted"));
    chmodSync(join(path, "script"), 0o755);
    symlinkSync("readme.txt", join(path, "link"));
    write(join(path, "folder", "untracked ünïcode"), "u\n");
    write(join(path, "ignored"), "stays here\n");

    const status = ["status", "--porcelain=v2", "-z", "--untracked-files=all"];
    await client.create("dirty", { kind: "directory", path });
    const here = execFileSync("git", status, { cwd: path });
    const there = await client.execute("dirty", ["git", ...status]);
    expect(there.stdout.toString("utf8").split("\0")).toEqual(here.toString("utf8").split("\0"));
    expect(await inWorkspace("dirty", "cat", "changed", "both", "link")).toBe("changed here\nthen changed\nhello");
    expect(await inWorkspace("dirty", "git", "remote")).toBe("");
    expect((await client.execute("dirty", ["cat", "ignored"])).code).not.toBe(0);
  });

  it("takes a plain directory as it is", async () => {
    const path = host.path("plain");
    write(join(path, "a", "b.bin"), Buffer.from([0, 255, 10, 13]));
    write(join(path, "run"), "#!/bin/sh\necho ran\n");
    chmodSync(join(path, "run"), 0o755);
    mkdirSync(join(path, "empty"));
    symlinkSync("a/b.bin", join(path, "link"));
    await client.create("plain", { kind: "directory", path });
    expect(await inWorkspace("plain", "./run")).toBe("ran");
    expect((await client.execute("plain", ["cat", "link"])).stdout).toEqual(readFileSync(join(path, "link")));
    expect(await inWorkspace("plain", "find", ".", "-type", "d")).toContain("./empty");
  });

  it("creates once: later creates find the workspace, also while its source is gone", async () => {
    const path = repository("short-lived");
    const source = { kind: "directory", path };
    const first = await client.create("once", source);
    expect(first.materializedFreshContent).toBe(true);
    await inWorkspace("once", "sh", "-c", "echo work >work.txt");
    expect(await client.create("once", source)).toEqual({ ...first, materializedFreshContent: false });
    rmSync(path, { recursive: true });
    expect(await client.create("once", source)).toEqual({ ...first, materializedFreshContent: false });
    expect(await inWorkspace("once", "cat", "work.txt")).toBe("work");
  });

  it("makes one workspace of five creates at once, and tells one of them that it is fresh", async () => {
    const path = repository("wanted");
    writeFileSync(join(path, "untracked"), "u\n");
    const answers = await Promise.all(
      Array.from({ length: 5 }, () => client.create("wanted", { kind: "directory", path })),
    );
    expect(answers.map((answer) => answer.materializedFreshContent).sort()).toEqual([false, false, false, false, true]);
    expect(new Set(answers.map((answer) => answer.placement.cwd)).size).toBe(1);
    expect(host.workspaceFolders().filter((name) => name.startsWith("wanted-") || name.startsWith("."))).toHaveLength(
      1,
    );
  });

  it("tells the environment of the account, of Paseo and of the options", async () => {
    const extra = { path: ["/opt/tools/bin", "~/tools"], env: { GREETING: "good day", LANG: "de_DE.UTF-8" } };
    const shaped = client.with({ options: extra });
    const { state } = await shaped.create("environment", { kind: "git", url, revision: "feature" });
    const { PATH, ...environment } = state.lifecycleEnvironment;
    expect(environment).toEqual({
      HOME: userInfo().homedir,
      USER: host.sshd.user,
      LOGNAME: host.sshd.user,
      SHELL: expect.stringMatching(/^\/.*sh$/),
      LANG: "de_DE.UTF-8",
      TMPDIR: expect.stringMatching(/^\//),
      GREETING: "good day",
      PASEO_SOURCE_CHECKOUT_PATH: ".",
      PASEO_ROOT_PATH: ".",
      PASEO_WORKTREE_PATH: ".",
      PASEO_BRANCH_NAME: "feature",
    });
    expect(PATH).toMatch(new RegExp(`^/opt/tools/bin:${userInfo().homedir}/tools:/.*`));
    expect((await client.inspect("environment")).state.lifecycleEnvironment.GREETING).toBeUndefined();
    expect((await shaped.inspect("environment")).state.lifecycleEnvironment).toEqual(state.lifecycleEnvironment);
  });

  it("shows progress to a person at a terminal, and to nobody else", async () => {
    const root = host.path("another-root");
    const person = host.client({ root });
    const input = person.createInput("person", { kind: "git", url, revision: "" });
    write(host.path("request.json"), JSON.stringify(person.request(input)));
    const words = [process.execPath, person.launcher, "create", "--workspace-id", "person"].map((word) => `'${word}'`);
    const command = `${words.join(" ")} <'${host.path("request.json")}' >'${host.path("answer.json")}'`;
    const shown = execFileSync("script", ["--quiet", "--return", "--command", command, "/dev/null"], {
      env: person.env,
      encoding: "utf8",
    });
    expect(shown).toMatch(/^Putting the agent on 127\.0\.0\.1 .*\r\n(?:[^\n]+…\r\n)+$/);
    expect(JSON.parse(readFileSync(host.path("answer.json"), "utf8")).materializedFreshContent).toBe(true);
    expect(await person.operation(["create", "--workspace-id", "person"], input)).toMatchObject({ stderr: "" });
  });
});

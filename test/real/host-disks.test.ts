import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, rmSync, statfsSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { ACCOUNT_HOST, type Account, addAccount } from "../support/accounts.ts";
import { BuildHost, execFailureCode, failureCode, outputOf } from "../support/build-host.ts";
import { describePrivileged } from "../support/requirements.ts";
import type { RuntimeClient } from "../support/runtime.ts";
import { commit, git, write } from "../workspace/fixture.ts";

/** Disks of the host that take no more, take nothing, or run nothing: small file systems in memory, mounted for a test. */
describePrivileged("a disk of the host", () => {
  let host: BuildHost;
  let mounts: string[] = [];
  beforeAll(async () => {
    host = await BuildHost.start();
  });
  afterEach(async () => {
    for (const mount of mounts) {
      await host.killAgents(join(mount, "root"));
      execFileSync("umount", ["--lazy", mount]);
    }
    mounts = [];
  });
  afterAll(() => host?.stop());

  function mount(options: string): string {
    const folder = host.path(host.newName("disk"));
    mkdirSync(folder);
    execFileSync("mount", ["-t", "tmpfs", "-o", options, "tmpfs", folder]);
    mounts.push(folder);
    return folder;
  }
  const remount = (disk: string, options: string) => execFileSync("mount", ["-o", `remount,${options}`, disk]);
  const clientOf = (disk: string) => host.client({ root: join(disk, "root") });
  const inspect = (client: RuntimeClient) => client.operation(["inspect", "--workspace-id", "w"]);
  /** Leaves this many bytes. */
  function fill(disk: string, left: number): void {
    const { bavail, bsize } = statfsSync(disk);
    writeFileSync(join(disk, "filler"), Buffer.alloc(bavail * bsize - left));
  }
  async function works(client: RuntimeClient): Promise<void> {
    const source = host.emptyFolder();
    writeFileSync(join(source, "file"), "content\n");
    const id = host.newName();
    await client.create(id, { kind: "directory", path: source });
    expect(await outputOf(client, id, ["cat", "file"])).toBe("content");
    await client.destroy(id);
  }

  it("that is mounted noexec is refused, and another root works", async () => {
    const disk = mount("size=8m,noexec");
    const client = clientOf(disk);
    const result = await inspect(client);
    expect(failureCode(result)).toBe("root-not-executable");
    expect(result.stderr).toBe(
      `Programs in the root folder ${disk}/root on the build host cannot be executed. Its file system is probably mounted noexec; name another folder with the option root. [root-not-executable]\n`,
    );
    expect(host.listing(join(disk, "root"))).toEqual([]);
    await works(client.with({ options: { root: host.path("elsewhere") } }));
    await host.killAgents(host.path("elsewhere"));
  });

  it("that is read-only is refused, and used when it is no more", async () => {
    const disk = mount("size=8m,ro");
    const client = clientOf(disk);
    const result = await inspect(client);
    expect(failureCode(result)).toBe("root-not-writable");
    expect(result.stderr).toMatch(
      new RegExp(`^The root folder ${disk}/root on the build host cannot be written \\(EROFS: read-only file system`),
    );
    remount(disk, "rw");
    await works(client);
  });

  it("that is full is refused, and leaves nothing behind that would keep it full", async () => {
    const disk = mount("size=8m");
    const client = clientOf(disk);
    // Not a byte; room for the first look, but not for the agent; room for the agent, and then for nothing else.
    for (const [left, code, cause] of [
      [0, "root-not-writable", /ENOSPC/],
      [64 * 1024, "deploy-failed", /ENOSPC/],
    ] as const) {
      fill(disk, left);
      const result = await inspect(client);
      expect(failureCode(result)).toBe(code);
      expect(result.stderr).toMatch(cause);
      expect(result.stderr).toMatch(/ree some space/);
      rmSync(join(disk, "filler"));
      expect(host.listing(join(disk, "root")).filter((path) => path !== "agent")).toEqual([]);
    }
    await works(client);
  });

  it("that fills up under a running agent fails what needs room, with its name, and nothing else", async () => {
    const disk = mount("size=8m");
    const client = clientOf(disk);
    const source = host.emptyFolder();
    writeFileSync(join(source, "file"), Buffer.alloc(256 * 1024));
    await client.create("w", { kind: "directory", path: source });
    fill(disk, 0);
    const input = client.createInput("v", { kind: "directory", path: source });
    const created = await client.operation(["create", "--workspace-id", "v"], input);
    expect(failureCode(created)).toBe("root-not-writable");
    expect(created.stderr).toMatch(/^A disk of the build host is full \(ENOSPC[^)]*\)\. Free some space there/);
    expect(execFailureCode(await client.execute("w", ["true"]))).toBe("root-not-writable");
    expect((await client.inspect("w")).status).toBe("ready");
    rmSync(join(disk, "filler"));
    expect((await client.execute("w", ["true"])).code).toBe(0);
    await works(client);
  });
});

describePrivileged("/tmp on the host", () => {
  it("may be mounted noexec", async () => {
    const command = `unshare --mount /bin/sh -c "mount -t tmpfs -o noexec,size=8m tmpfs /tmp && exec /bin/sh"`;
    const host = await BuildHost.start({ config: [`ForceCommand ${command}`] });
    const root = `/var/tmp/psr-root-${process.pid}`;
    try {
      const client = host.client({ root });
      const source = host.emptyFolder();
      writeFileSync(join(source, "file"), "content\n");
      await client.create("w", { kind: "directory", path: source });
      const mounted = await outputOf(client, "w", ["sh", "-c", "findmnt -n -o OPTIONS /tmp; cat file"]);
      expect(mounted).toMatch(/noexec.*\ncontent$/);
      const stdio = { kind: "pty", rows: 2, cols: 9 };
      expect((await client.exec("w", { argv: ["true"], stdio }).result()).code).toBe(0);
    } finally {
      await host.stop();
      rmSync(root, { recursive: true, force: true });
    }
  });
});

describePrivileged("the umask of the account", () => {
  let host: BuildHost;
  let source: string;
  beforeAll(async () => {
    host = await BuildHost.start(ACCOUNT_HOST);
    source = host.path("source");
    mkdirSync(source);
    git(source, "init", "-q", "-b", "main");
    write(join(source, "program"), "#!/bin/sh\necho ran\n");
    chmodSync(join(source, "program"), 0o755);
    write(join(source, "file"), "content\n");
    commit(source);
  });
  afterAll(() => host?.stop());

  const mode = (path: string) => (statSync(path).mode & 0o777).toString(8);

  /** What others could read below the root, were it not for the root itself; the content of workspaces aside. */
  function openToOthers(account: Account): string[] {
    return host
      .listing(account.root)
      .filter((path) => !/^workspaces\/[^/]+\/content(?:\/|$)/.test(path))
      .map((path) => join(account.root, path))
      .filter((path) => {
        const stats = statSync(path, { throwIfNoEntry: false });
        return stats !== undefined && (stats.mode & 0o077) !== 0;
      });
  }

  it.each([
    ["000", "666", "777"],
    ["077", "600", "700"],
  ])("%s shapes the content of workspaces, and nothing of the runtime's own", async (umask, file, program) => {
    const account = addAccount(host, { shell: "/bin/bash" });
    account.write(".bashrc", `umask ${umask}\n`);
    const client = host.client(account.options);
    try {
      const { placement } = await client.create("w", { kind: "directory", path: source });
      expect(await outputOf(client, "w", ["./program"])).toBe("ran");
      expect(await outputOf(client, "w", ["sh", "-c", "umask"])).toBe(`0${umask}`);
      expect([mode(join(placement.cwd, "file")), mode(join(placement.cwd, "program"))]).toEqual([file, program]);
      expect(mode(account.root)).toBe("700");
      expect(openToOthers(account)).toEqual([]);
      expect(mode(join(account.root, "logs", "agent.log"))).toBe("600");
    } finally {
      await client.close();
      await account.remove();
    }
  });
});

import { lstatSync, lutimesSync, readdirSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { answers, type Claim, claimName, publicSocketPath } from "../../src/wire/rendezvous.ts";
import { bundleProgram } from "../support/bundle.ts";
import { endedProcess } from "../support/ended-process.ts";
import { scratchFolder } from "../support/scratch-folder.ts";
import { Claimant, whoAnswers } from "./claimants.ts";

const program = bundleProgram("test/fixtures/claimant.ts");

/** Claims in this process. */
async function claim(folder: string, name: string, takeOver = false): Promise<Claim | undefined> {
  const answer = (socket: Socket) => {
    socket.on("error", () => {});
    socket.end(String(process.pid));
  };
  const mine = await claimName(folder, name, answer, takeOver);
  if (mine !== undefined) onTestFinished(() => mine.release());
  return mine;
}

describe("claiming a name", () => {
  it("makes it lead to a socket that only its owner can open", async () => {
    const folder = scratchFolder();
    const mine = (await claim(folder, "agent"))!;
    const path = publicSocketPath(folder, "agent");
    expect(path).toBe(join(folder, "agent.sock"));
    expect(mine.privatePath).toBe(join(folder, `agent.${process.pid}.sock`));
    // Relative, so that the folder may be reached by several paths.
    expect(readlinkSync(path)).toBe(`agent.${process.pid}.sock`);
    expect(lstatSync(mine.privatePath).mode & 0o777).toBe(0o600);
    expect(mine.held()).toBe(true);
    expect(await whoAnswers(path)).toBe(process.pid);
    expect(readdirSync(folder).sort()).toEqual([`agent.${process.pid}.sock`, "agent.sock"]);
  });

  it("gives way to a live process and leaves nothing behind", async () => {
    const folder = scratchFolder();
    const other = new Claimant(program, folder);
    expect(await other.obey("claim agent")).toMatchObject({ claimed: true });
    expect(await claim(folder, "agent")).toBeUndefined();
    expect(readdirSync(folder).sort()).toEqual([`agent.${other.pid}.sock`, "agent.sock"]);
    expect(await whoAnswers(publicSocketPath(folder, "agent"))).toBe(other.pid);
  });

  it("gives way to a process that is stopped, for it will go on", async () => {
    const folder = scratchFolder();
    const other = new Claimant(program, folder);
    await other.obey("claim agent");
    other.child.kill("SIGSTOP");
    expect(await claim(folder, "agent")).toBeUndefined();
  });

  it("gives way to a process that has no room for another connection", async () => {
    const folder = scratchFolder();
    const other = new Claimant(program, folder);
    await other.obey("claim agent");
    other.child.kill("SIGSTOP");
    // More than the kernel queues for one listener: net.core.somaxconn, and node asks for 511.
    const waiting = Array.from({ length: 600 }, () => {
      const socket = connect(publicSocketPath(folder, "agent"));
      socket.on("error", () => {});
      return socket;
    });
    onTestFinished(() => {
      for (const socket of waiting) socket.destroy();
    });
    expect(await answers(publicSocketPath(folder, "agent"))).toBe(true);
    expect(await claim(folder, "agent")).toBeUndefined();
  });

  it("takes over from one that was killed, and clears its socket away", async () => {
    const folder = scratchFolder();
    const other = new Claimant(program, folder);
    await other.obey("claim agent");
    await other.kill();
    expect(readdirSync(folder)).toContain(`agent.${other.pid}.sock`);
    expect((await claim(folder, "agent"))?.held()).toBe(true);
    expect(readdirSync(folder).sort()).toEqual([`agent.${process.pid}.sock`, "agent.sock"]);
  });

  it("clears away what dead processes left, and nothing else", async () => {
    const folder = scratchFolder();
    const dead = await endedProcess();
    const other = new Claimant(program, folder);
    await other.obey("claim agent-2");
    const kept = [`agent.${process.ppid}.sock`, `agent-3.${dead}.sock`, "agent.json", "agent.log", "broker.log"];
    for (const name of [...kept, `agent.${dead}.sock`, `agent.${dead}.link`]) writeFileSync(join(folder, name), "");
    await claim(folder, "agent");
    expect(readdirSync(folder).sort()).toEqual(
      [...kept, `agent.${process.pid}.sock`, "agent.sock", `agent-2.${other.pid}.sock`, "agent-2.sock"].sort(),
    );
  });

  it.each<[string, (folder: string) => void]>([
    ["a link that leads nowhere", (folder) => symlinkSync("elsewhere", publicSocketPath(folder, "agent"))],
    [
      "a link to a file",
      (folder) => {
        writeFileSync(join(folder, "file"), "");
        symlinkSync("file", publicSocketPath(folder, "agent"));
      },
    ],
    ["a link to itself", (folder) => symlinkSync("agent.sock", publicSocketPath(folder, "agent"))],
  ])("replaces %s", async (_name, prepare) => {
    const folder = scratchFolder();
    prepare(folder);
    expect((await claim(folder, "agent"))?.held()).toBe(true);
    expect(await whoAnswers(publicSocketPath(folder, "agent"))).toBe(process.pid);
  });

  it.each<[string, (lock: string) => Promise<void>]>([
    ["of a dead process", async (lock) => symlinkSync(String(await endedProcess()), lock)],
    [
      "that is old, whoever has its pid now",
      async (lock) => {
        symlinkSync(String(process.ppid), lock);
        lutimesSync(lock, Date.now() / 1000 - 60, Date.now() / 1000 - 60);
      },
    ],
    ["without a pid", async (lock) => symlinkSync("nobody", lock)],
  ])("is not held up by a lock %s", async (_name, leave) => {
    const folder = scratchFolder();
    symlinkSync(`agent.${await endedProcess()}.sock`, publicSocketPath(folder, "agent"));
    await leave(join(folder, "agent.lock"));
    expect((await claim(folder, "agent"))?.held()).toBe(true);
    expect(readdirSync(folder)).not.toContain("agent.lock");
  });

  it("fails when its folder is not there", async () => {
    await expect(claim(join(scratchFolder(), "missing"), "agent")).rejects.toThrow(/ENOENT/);
  });
});

describe("taking a name over", () => {
  it("moves the name and leaves the other process its own socket", async () => {
    const folder = scratchFolder();
    const old = new Claimant(program, folder);
    const { privatePath } = await old.obey("claim agent");
    const mine = (await claim(folder, "agent", true))!;
    expect(mine.held()).toBe(true);
    expect(await whoAnswers(publicSocketPath(folder, "agent"))).toBe(process.pid);
    expect(await old.obey("held agent")).toEqual({ held: false });
    expect(await whoAnswers(privatePath as string)).toBe(old.pid);
    // The old one leaves later, without touching the name.
    await old.obey("release agent");
    expect(await whoAnswers(privatePath as string)).toBeUndefined();
    expect(await whoAnswers(publicSocketPath(folder, "agent"))).toBe(process.pid);
  });

  it("works where there is nothing to take", async () => {
    const folder = scratchFolder();
    expect((await claim(folder, "agent", true))?.held()).toBe(true);
  });

  it("by several at once ends with the name at exactly one, and all reachable", async () => {
    const folder = scratchFolder();
    const all = Array.from({ length: 4 }, () => new Claimant(program, folder));
    const results = await Promise.all(all.map((claimant) => claimant.obey("take agent")));
    expect(results.every((result) => result.claimed)).toBe(true);
    const held = await Promise.all(all.map(async (claimant) => (await claimant.obey("held agent")).held));
    expect(held.filter(Boolean)).toHaveLength(1);
    expect(await whoAnswers(publicSocketPath(folder, "agent"))).toBe(all[held.indexOf(true)]!.pid);
    for (const [index, claimant] of all.entries()) {
      expect(await whoAnswers(results[index]!.privatePath as string)).toBe(claimant.pid);
    }
  });
});

describe("releasing a name", () => {
  it("removes both sockets, and a second time does nothing", async () => {
    const folder = scratchFolder();
    const mine = (await claim(folder, "agent"))!;
    mine.release();
    expect(readdirSync(folder)).toEqual([]);
    expect(mine.held()).toBe(false);
    const next = new Claimant(program, folder);
    expect(await next.obey("claim agent")).toMatchObject({ claimed: true });
    mine.release();
    expect(await whoAnswers(publicSocketPath(folder, "agent"))).toBe(next.pid);
  });

  it("is harmless when the folder is gone", async () => {
    const folder = scratchFolder();
    const mine = (await claim(folder, "agent"))!;
    rmSync(folder, { recursive: true });
    expect(mine.held()).toBe(false);
    mine.release();
  });
});

describe("answers", () => {
  it("tells a listening socket from everything else", async () => {
    const folder = scratchFolder();
    const path = join(folder, "x.sock");
    expect(await answers(path)).toBe(false);
    writeFileSync(path, "");
    expect(await answers(path)).toBe(false);
    expect(await answers(folder)).toBe(false);
    const server = createServer((socket) => socket.destroy());
    await new Promise<void>((resolve) => server.listen(join(folder, "y.sock"), resolve));
    onTestFinished(() => {
      server.close();
    });
    expect(await answers(join(folder, "y.sock"))).toBe(true);
  });
});

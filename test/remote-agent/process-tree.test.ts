import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { describe, expect, it, onTestFinished } from "vitest";
import { membersOf, ProcessTree } from "../../remote-agent/process-tree.ts";
import { isAlive, listProcesses, type ProcessIdentity, sendSignal, startTimeOf } from "../../remote-agent/processes.ts";
import { endedProcess } from "../support/ended-process.ts";
import { untilGone } from "../support/processes.ts";

/**
 * A workload as the agent starts it: leader of its own session. It names its processes in lines (`echo leader $$`),
 * and all of them are killed after the test.
 */
async function workload(script: string, names: string[]): Promise<{ child: ChildProcess; pids: Map<string, number> }> {
  const child = spawn("/bin/bash", ["-c", script], { detached: true, stdio: ["pipe", "pipe", "inherit"] });
  const pids = new Map<string, number>();
  onTestFinished(() => {
    for (const pid of [child.pid!, ...pids.values()]) sendSignal(pid, "SIGKILL");
  });
  const lines: AsyncIterator<string> = createInterface({ input: child.stdout! })[Symbol.asyncIterator]();
  while (pids.size < names.length) {
    const { value, done } = await lines.next();
    if (done) throw new Error(`the workload ended with ${[...pids.keys()]}`);
    const [name = "", pid] = value.split(" ");
    pids.set(name, Number(pid));
  }
  return { child, pids };
}

/** A child that ends once its parent is a program that waits for no child. */
const ZOMBIE = '(until [ "$(cat /proc/$$/comm)" = sleep ]; do :; done; echo zombie $BASHPID) &';

function identity(pid: number): ProcessIdentity {
  return { pid, startTime: startTimeOf(pid)! };
}

const pidsOf = (entries: { pid: number }[]) => entries.map(({ pid }) => pid).sort((a, b) => a - b);
const sorted = (pids: Iterable<number>) => [...pids].sort((a, b) => a - b);

describe("the process table", () => {
  it("has this process, with its parent, group and session", () => {
    const self = listProcesses().find(({ pid }) => pid === process.pid)!;
    expect(self).toMatchObject({ ppid: process.ppid, zombie: false, startTime: startTimeOf(process.pid) });
    // 0 is a group or session led from outside this process namespace, as in a container; the next test has real ones.
    expect(self.pgid).toBeGreaterThanOrEqual(0);
    expect(self.sid).toBeGreaterThanOrEqual(0);
  });

  it("reads the entry of a program whose name looks like one", async () => {
    const { child, pids } = await workload(
      "exec -a 'x) S 1 1 1 (y' bash -c 'printf %s \"a) Z 1 2 3\" > /proc/self/comm; echo leader $$; exec 3<&0; read -u 3'",
      ["leader"],
    );
    expect(pids.get("leader")).toBe(child.pid);
    expect(listProcesses().find(({ pid }) => pid === child.pid)).toMatchObject({
      ppid: process.pid,
      pgid: child.pid,
      sid: child.pid,
      zombie: false,
    });
  });

  it("tells a process from a later one with its pid, from a zombie and from none", async () => {
    // The inner one ends and is not waited for by a program that never does that.
    const { child, pids } = await workload(`${ZOMBIE} exec sleep 60`, ["zombie"]);
    const zombie = pids.get("zombie")!;
    const start = startTimeOf(zombie)!;
    await untilGone(zombie);
    expect(listProcesses().find(({ pid }) => pid === zombie)).toMatchObject({ zombie: true, startTime: start });
    expect(isAlive({ pid: zombie, startTime: start })).toBe(false);
    expect(isAlive(identity(child.pid!))).toBe(true);
    expect(isAlive({ pid: child.pid!, startTime: "0" })).toBe(false);
    expect(startTimeOf(await endedProcess())).toBeUndefined();
  });

  it("signals to what is gone are no error", async () => {
    const pid = await endedProcess();
    expect(sendSignal(pid, "SIGTERM")).toBe(false);
    expect(sendSignal(-pid, 0)).toBe(false);
    expect(sendSignal(process.pid, 0)).toBe(true);
    expect(() => sendSignal(process.pid, 12_345)).toThrow();
  });
});

describe("the processes of an execution", () => {
  it("are its group, also after the leader has ended", async () => {
    const { child, pids } = await workload("echo leader $$; sleep 60 & echo child $!; read", ["leader", "child"]);
    const leader = identity(child.pid!);
    expect(pidsOf(membersOf(leader))).toEqual(sorted(pids.values()));
    child.stdin!.end();
    await once(child, "exit");
    expect(pidsOf(membersOf(leader))).toEqual([pids.get("child")]);
  });

  it("are those in other groups of its session, and grandchildren in sessions of their own", async () => {
    const { child, pids } = await workload(
      `echo leader $$
       set -m
       bash -c 'echo group $$; setsid bash -c "echo session \\$\\$; sleep 60 & echo below \\$!; wait" & wait' &
       wait`,
      ["leader", "group", "session", "below"],
    );
    const table = listProcesses();
    const entry = (name: string) => table.find(({ pid }) => pid === pids.get(name))!;
    expect(entry("group").pgid).not.toBe(child.pid);
    expect(entry("session").sid).not.toBe(child.pid);
    expect(pidsOf(membersOf(identity(child.pid!)))).toEqual(expect.arrayContaining(sorted(pids.values())));
  });

  it("are those that were seen before they left session and ancestry", async () => {
    const { child, pids } = await workload(
      `echo leader $$
       bash -c 'setsid bash -c "echo daemon \\$\\$; exec sleep 60" & echo between $$; read' <&0 &
       wait`,
      ["leader", "daemon", "between"],
    );
    const tree = new ProcessTree(identity(child.pid!), undefined);
    expect(pidsOf(tree.look())).toEqual(expect.arrayContaining(sorted(pids.values())));
    const between = pids.get("between")!;
    sendSignal(between, "SIGTERM");
    await untilGone(between);
    // Its parent is process 1 now.
    expect(pidsOf(membersOf(identity(child.pid!)))).not.toContain(pids.get("daemon"));
    expect(pidsOf(tree.look())).toContain(pids.get("daemon"));
  });

  it("are none of another process's, when the pid has been given away", async () => {
    const { child, pids } = await workload("echo leader $$; sleep 60 & echo child $!; wait", ["leader", "child"]);
    const before: ProcessIdentity = { pid: child.pid!, startTime: "1" };
    expect(membersOf(before)).toEqual([]);
    const known = [identity(pids.get("child")!), { pid: process.pid, startTime: "1" }];
    expect(pidsOf(membersOf(before, known))).toEqual([pids.get("child")]);
    expect(pidsOf(membersOf(before, [], [pids.get("child")!]))).toEqual([pids.get("child")]);
  });

  it("are no zombies and nobody else's", async () => {
    const { child, pids } = await workload(`echo leader $$; ${ZOMBIE} exec sleep 60`, ["leader", "zombie"]);
    const other = await workload("echo leader $$; read", ["leader"]);
    await untilGone(pids.get("zombie")!);
    const members = pidsOf(membersOf(identity(child.pid!)));
    expect(members).toEqual([child.pid]);
    expect(members).not.toContain(other.child.pid);
  });

  it("all end by a kill, also when they ignore signals and go on forking", async () => {
    const { child, pids } = await workload(
      `trap '' HUP INT TERM
       echo leader $$
       setsid bash -c 'trap "" TERM; echo session $$; while :; do sleep 0.05 & sleep 0.01; done' &
       sleep 60 & echo child $!
       wait`,
      ["leader", "session", "child"],
    );
    const tree = new ProcessTree(identity(child.pid!), undefined);
    const exited = once(child, "exit");
    tree.signalGroup("SIGTERM");
    expect(await tree.gone(50)).toBe(false);
    expect(await tree.kill(5000)).toBe(true);
    expect(await exited).toEqual([null, "SIGKILL"]);
    expect(tree.look()).toEqual([]);
    expect(await tree.gone(0)).toBe(true);
    for (const pid of pids.values()) expect(startTimeOf(pid) === undefined || !isAlive(identity(pid))).toBe(true);
    // Nothing is left to be hit.
    tree.signalGroup("SIGKILL");
  });
});

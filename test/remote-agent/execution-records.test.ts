import { createHash } from "node:crypto";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ExecutionRecords, type LiveRecord } from "../../remote-agent/execution-records.ts";
import { scratchFolder } from "../support/scratch-folder.ts";

function record(execId: string): LiveRecord {
  const agent = { agentPid: 1, agentStartTime: "5", agentSocket: "/run/agent.1.sock" };
  return { execId, pid: 10, startTime: "123", ...agent, host: "0123abcd" };
}

/** The file of an ended identity: one of 256, by its hash. */
function bucket(folder: string, execId: string): string {
  const digest = createHash("sha256").update(execId).digest("hex");
  return join(folder, "executions", "ended", digest.slice(0, 2));
}

describe("records of executions", () => {
  it("of live ones are found again by another agent, and gone once they have ended", () => {
    const folder = scratchFolder();
    const records = new ExecutionRecords(folder);
    expect(records.listLive()).toEqual([]);
    for (const id of ["a", "b/../c", "x".repeat(1024)]) records.writeLive(record(id));
    const reloaded = new ExecutionRecords(folder);
    expect(
      reloaded
        .listLive()
        .map(({ execId }) => execId)
        .sort(),
    ).toEqual(["a", "b/../c", "x".repeat(1024)].sort());
    expect(reloaded.readLive("b/../c")).toEqual(record("b/../c"));
    expect(reloaded.readLive("c")).toBeUndefined();
    reloaded.markEnded("a", "exited");
    expect(reloaded.readLive("a")).toBeUndefined();
    expect(records.listLive()).toHaveLength(2);
  });

  it("of ended ones are remembered for good, with how they ended", () => {
    const folder = scratchFolder();
    const records = new ExecutionRecords(folder);
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.string({ unit: "binary", minLength: 1, maxLength: 30 }), { maxLength: 20 }),
        fc.array(fc.boolean(), { minLength: 20, maxLength: 20 }),
        (ids, lost) => {
          rmSync(join(folder, "executions"), { recursive: true, force: true });
          for (const id of ids) records.writeLive(record(id));
          for (const [index, id] of ids.entries()) records.markEnded(id, lost[index] ? "lost" : "exited");
          const reloaded = new ExecutionRecords(folder);
          for (const [index, id] of ids.entries())
            expect(reloaded.endedOutcome(id)).toBe(lost[index] ? "lost" : "exited");
          expect(reloaded.listLive()).toEqual([]);
          expect(reloaded.endedOutcome("never used, and too long to be generated")).toBeUndefined();
        },
      ),
      { numRuns: 40 },
    );
  });

  it("are found by the whole id, also where it looks like a line of the file", () => {
    const folder = scratchFolder();
    const records = new ExecutionRecords(folder);
    const tricky = ['a","exited"]\n["b', '["c","exited"]', 'd"', "e\n", "\\", '\\"'];
    for (const id of tricky) {
      records.writeLive(record(id));
      records.markEnded(id, "lost");
    }
    for (const id of tricky) expect(records.endedOutcome(id)).toBe("lost");
    for (const id of ["a", "b", "c", "d", "e", ""]) expect(records.endedOutcome(id)).toBeUndefined();
  });

  it("survive a last line that a crash has cut short, and what is appended to it", () => {
    const folder = scratchFolder();
    const records = new ExecutionRecords(folder);
    const first = "first";
    // Another id of the same file.
    const [, second, third] = sameBucket(folder, first);
    for (const id of [first, second!, third!]) records.writeLive(record(id));
    records.markEnded(first, "exited");
    const line = JSON.stringify([second, "exited"]);
    appendFileSync(bucket(folder, second!), line.slice(0, -4));
    expect(records.endedOutcome(first)).toBe("exited");
    expect(records.endedOutcome(second!)).toBeUndefined();
    // Its live record is still there, so the next agent closes it.
    expect(records.readLive(second!)).toBeDefined();
    records.markEnded(third!, "lost");
    records.markEnded(second!, "lost");
    expect([first, second!, third!].map((id) => records.endedOutcome(id))).toEqual(["exited", "lost", "lost"]);
  });

  it("that are damaged do not hide the others", () => {
    const folder = scratchFolder();
    const records = new ExecutionRecords(folder);
    records.writeLive(record("good"));
    const live = join(folder, "executions", "live");
    for (const [name, content] of Object.entries({ "cut.json": "{", "old.json": '{"execId":"x"}', "x.tmp": "{}" }))
      writeFileSync(join(live, name), content);
    mkdirSync(join(live, "folder.json"));
    expect(records.listLive()).toEqual([record("good")]);
  });

  it("do not bring a workspace back that was destroyed meanwhile", () => {
    const folder = join(scratchFolder(), "workspace");
    mkdirSync(folder);
    const records = new ExecutionRecords(folder);
    records.writeLive(record("a"));
    rmSync(folder, { recursive: true });
    records.markEnded("a", "exited");
    expect(existsSync(folder)).toBe(false);
  });

  it("are private and spread over a bounded number of files", () => {
    const folder = scratchFolder();
    const records = new ExecutionRecords(folder);
    records.writeLive(record("a"));
    for (let count = 0; count < 1000; count += 1) records.markEnded(`id-${count}`, "exited");
    const files = readdirSync(join(folder, "executions", "ended"));
    expect(files.length).toBeLessThanOrEqual(256);
    expect(files.length).toBeGreaterThan(200);
    for (const path of ["", "live", "ended"])
      expect(statSync(join(folder, "executions", path)).mode & 0o777).toBe(0o700);
    expect(statSync(bucket(folder, "id-1")).mode & 0o777).toBe(0o600);
    expect(readFileSync(bucket(folder, "id-1"), "utf8")).toContain('["id-1","exited"]\n');
  });
});

/** Ids that share the file of this one. */
function sameBucket(folder: string, execId: string): string[] {
  const found = [execId];
  for (let count = 0; found.length < 3; count += 1) {
    const other = `other-${count}`;
    if (bucket(folder, other) === bucket(folder, execId)) found.push(other);
  }
  return found;
}

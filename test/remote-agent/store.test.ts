import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import * as z from "zod/mini";
import { readJson, syncFolder, writeFileAtomically, writeJsonAtomically } from "../../remote-agent/store.ts";
import { bundleProgram } from "../support/bundle.ts";
import { scratchFolder } from "../support/scratch-folder.ts";

const Entries = z.strictObject({ entries: z.array(z.string()) });

describe("files that are replaced as a whole", () => {
  const writer = bundleProgram("test/fixtures/record-writer.ts");

  /** The one entry that fills the file; fails when the file is not exactly one write. */
  function read(file: string): string {
    const entries = readJson(file, Entries)?.entries ?? [];
    expect(entries).toHaveLength(5000);
    expect(new Set(entries).size).toBe(1);
    return entries[0]!;
  }

  async function startWriter(file: string, durable: boolean): Promise<ChildProcess> {
    const child = spawn(process.execPath, [writer, file, String(durable)], { stdio: ["ignore", "pipe", "inherit"] });
    await once(child.stdout!, "data");
    return child;
  }

  it.each([true, false])("are old or new whenever their writer is killed (durable: %s)", async (durable) => {
    const file = join(scratchFolder(), "record.json");
    const seen = new Set<string>();
    for (let round = 0; round < 5; round += 1) {
      const writers = await Promise.all(Array.from({ length: 5 }, () => startWriter(file, durable)));
      const ended = writers.map((child) => once(child, "exit"));
      for (const child of writers) {
        for (let reads = Math.floor(Math.random() * 12); reads >= 0; reads -= 1) seen.add(read(file));
        child.kill("SIGKILL");
      }
      await Promise.all(ended);
      seen.add(read(file));
    }
    expect(seen.size).toBeGreaterThan(5);
  });

  it("leave nothing beside them, and readers get the mode that was asked for", () => {
    const folder = scratchFolder();
    const file = join(folder, "new", "folder", "record.json");
    const before = process.umask(0);
    try {
      writeJsonAtomically(file, { a: 1 }, { durable: true });
    } finally {
      process.umask(before);
    }
    expect(readFileSync(file, "utf8")).toBe('{\n  "a": 1\n}\n');
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(statSync(join(folder, "new")).mode & 0o777).toBe(0o700);
    chmodSync(file, 0o644);
    writeFileAtomically(file, Buffer.from("x"), { durable: false, mode: 0o700 });
    expect(statSync(file).mode & 0o777).toBe(0o700);
    expect(readdirSync(join(folder, "new", "folder"))).toEqual(["record.json"]);
  });

  it("stay as they were when the new content cannot be put in their place", () => {
    const folder = scratchFolder();
    mkdirSync(join(folder, "taken", "by", "a-folder"), { recursive: true });
    expect(() => writeFileAtomically(join(folder, "taken"), "x", { durable: true })).toThrow();
    expect(readdirSync(folder)).toEqual(["taken"]);
  });
});

describe("reading a record", () => {
  it("tells a missing file from a damaged one", () => {
    const folder = scratchFolder();
    const file = join(folder, "record.json");
    expect(readJson(file, Entries)).toBeUndefined();
    expect(readJson(join(file, "below", "a", "file"), Entries)).toBeUndefined();
    for (const content of ["", "{", '{"entries":[1]}', '{"entries":[],"more":1}', "null"]) {
      writeFileSync(file, content);
      expect(() => readJson(file, Entries)).toThrow();
    }
    writeFileSync(file, '{"entries":["a"]}');
    expect(readJson(file, Entries)).toEqual({ entries: ["a"] });
    expect(readJson(join(file, "not-a-folder"), Entries)).toBeUndefined();
    expect(() => readJson(folder, Entries)).toThrow(/EISDIR/);
  });

  it("a folder can be synced, and one that is missing cannot", () => {
    const folder = scratchFolder();
    syncFolder(folder);
    expect(() => syncFolder(join(folder, "missing"))).toThrow(/ENOENT/);
    expect(existsSync(folder)).toBe(true);
  });
});

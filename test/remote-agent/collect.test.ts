import { existsSync, mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { collectUnused } from "../../remote-agent/collect.ts";
import { Layout } from "../../remote-agent/layout.ts";

let root: string;
let layout: Layout;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "psr-collect-"));
  layout = new Layout(root);
});

afterEach(() => rmSync(root, { recursive: true, force: true }));

function folderOfAge(parent: string, name: string, days: number): string {
  const folder = join(parent, name);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "file"), "x");
  const then = new Date(Date.now() - days * 24 * 60 * 60 * 1000);
  utimesSync(folder, then, then);
  return folder;
}

it("removes agents, helpers and nodes that nobody has used for a month, and keeps what is in use", async () => {
  const places = [layout.agents, layout.helpers, layout.nodes];
  const old = places.map((place) => folderOfAge(place, "old", 31));
  const used = places.map((place) => folderOfAge(place, "own", 400));
  const young = places.map((place) => folderOfAge(place, "young", 29));
  await collectUnused(layout, used);
  expect(old.filter(existsSync)).toEqual([]);
  expect([...used, ...young].filter(existsSync)).toHaveLength(6);
  await collectUnused(layout, []);
  expect(used.filter(existsSync)).toHaveLength(3);
});

it("has nothing to do on a host without either, or where a helper in use is gone", async () => {
  await collectUnused(layout, [join(layout.helpers, "gone")]);
  expect(existsSync(layout.agents)).toBe(false);
});

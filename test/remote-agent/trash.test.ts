import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { describe, expect, it } from "vitest";
import { Layout } from "../../remote-agent/layout.ts";
import { emptyOldTrash, moveToTrash, TRASH_DAYS } from "../../remote-agent/trash.ts";
import { scratchFolder } from "../support/scratch-folder.ts";

const DAY_SECONDS = 24 * 60 * 60;

function workspace(layout: Layout, id: string, text: string): string {
  const folder = layout.workspace(id);
  mkdirSync(join(folder, "content"), { recursive: true });
  writeFileSync(join(folder, "content", "work"), text);
  return folder;
}

/** Makes it look as if it had been put there so many days ago. */
function age(path: string, days: number): void {
  const then = Date.now() / 1000 - days * DAY_SECONDS;
  utimesSync(path, then, then);
}

describe("the trash", () => {
  it("takes a folder as it is, with a private place and a time of its own", () => {
    const layout = new Layout(scratchFolder());
    const folder = workspace(layout, "w", "unsaved");
    age(folder, 300);
    const trashed = moveToTrash(layout, folder);
    expect(existsSync(folder)).toBe(false);
    expect(readFileSync(join(trashed, "content", "work"), "utf8")).toBe("unsaved");
    expect(basename(trashed).startsWith(`${basename(folder)}.`)).toBe(true);
    expect(Date.now() - statSync(trashed).mtimeMs).toBeLessThan(60_000);
    expect(statSync(layout.trash).mode & 0o777).toBe(0o700);
  });

  it("keeps every version of one workspace that is removed again and again", () => {
    const layout = new Layout(scratchFolder());
    const trashed = Array.from({ length: 20 }, (_, index) =>
      moveToTrash(layout, workspace(layout, "w", String(index))),
    );
    expect(new Set(trashed).size).toBe(20);
    for (const [index, path] of trashed.entries()) {
      expect(readFileSync(join(path, "content", "work"), "utf8")).toBe(String(index));
    }
  });

  it("is emptied of what is older than a week, and of nothing else", async () => {
    const layout = new Layout(scratchFolder());
    const kept = ["fresh", "six", "almost"].map((id) => moveToTrash(layout, workspace(layout, id, "x")));
    const old = ["seven", "year"].map((id) => moveToTrash(layout, workspace(layout, id, "x")));
    age(kept[1]!, 6);
    age(kept[2]!, TRASH_DAYS - 0.01);
    age(old[0]!, TRASH_DAYS + 0.01);
    age(old[1]!, 365);
    // Git makes files that are read-only, in folders that may be too.
    mkdirSync(join(old[1]!, "content", "sealed"));
    writeFileSync(join(old[1]!, "content", "sealed", "object"), "x", { mode: 0o400 });
    age(old[1]!, 365);
    await emptyOldTrash(layout);
    expect(readdirSync(layout.trash).sort()).toEqual(kept.map((path) => basename(path)).sort());
    await emptyOldTrash(layout);
  });

  it("need not exist", async () => {
    await emptyOldTrash(new Layout(join(scratchFolder(), "missing")));
  });

  it("does not take a folder that is not there", () => {
    const layout = new Layout(scratchFolder());
    expect(() => moveToTrash(layout, layout.workspace("missing"))).toThrow(/ENOENT/);
  });
});

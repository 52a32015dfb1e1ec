import { basename, dirname } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Layout } from "../../remote-agent/layout.ts";

const layout = new Layout("/root/.paseo-ssh-runtime");
/** Ids that a careless slug would confuse. */
const id = fc.oneof(
  fc.string({ unit: "binary", minLength: 1, maxLength: 60 }),
  fc.stringMatching(/^[aA./_ -]{1,12}$/),
  fc.constantFrom("a", "A", "a-", "-a", "a/b", "a.b", "a_b", "..", ".", "", "ä", "a\u0308", "con", "x".repeat(1024)),
);

describe("folders of workspaces", () => {
  it("are never shared by two ids", () => {
    fc.assert(
      fc.property(fc.uniqueArray(id, { minLength: 2, maxLength: 40 }), (ids) => {
        // Also where the file system takes upper and lower case for the same.
        const folders = ids.map((one) => layout.workspace(one).toLowerCase());
        expect(new Set(folders).size).toBe(ids.length);
      }),
      { numRuns: 300 },
    );
  });

  it("are plain names below the folder of workspaces, and always the same", () => {
    fc.assert(
      fc.property(id, (one) => {
        const folder = layout.workspace(one);
        expect(dirname(folder)).toBe(layout.workspaces);
        expect(basename(folder)).toMatch(/^(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?-)?[0-9a-f]{16}$/);
        expect(basename(folder).length).toBeLessThan(64);
        expect(new Layout(layout.root).workspace(one)).toBe(folder);
      }),
      { numRuns: 300 },
    );
  });

  it("say what they are to a person", () => {
    expect(basename(layout.workspace("Fix login (#12)"))).toMatch(/^fix-login-12-[0-9a-f]{16}$/);
    expect(basename(layout.workspace("../../etc/passwd"))).toMatch(/^etc-passwd-[0-9a-f]{16}$/);
    expect(basename(layout.workspace("日本"))).toMatch(/^[0-9a-f]{16}$/);
  });

  it("stand beside the other folders of the root", () => {
    const { agents, helpers, run, workspaces, gitCache, trash, logs } = layout;
    const all = [agents, helpers, run, workspaces, gitCache, trash, logs];
    expect(new Set(all).size).toBe(all.length);
    for (const folder of all) expect(folder.startsWith(`${layout.root}/`)).toBe(true);
  });
});

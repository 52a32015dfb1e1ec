import { mkdirSync, realpathSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { findProgram, resolveCwd } from "../../remote-agent/program.ts";
import { scratchFolder } from "../support/scratch-folder.ts";

/** Folders with files of these modes: `{ "bin/tool": 0o755 }`. */
function tree(files: Record<string, number>): string {
  const folder = realpathSync(scratchFolder());
  for (const [path, mode] of Object.entries(files)) {
    mkdirSync(join(folder, path, ".."), { recursive: true });
    writeFileSync(join(folder, path), "#!/bin/sh\n", { mode });
  }
  return folder;
}

function fails(action: () => unknown, code: string, message: RegExp): void {
  expect(action).toThrow(expect.objectContaining({ code, message: expect.stringMatching(message) }));
}

describe("finding a program", () => {
  it("takes the first on the PATH", () => {
    const folder = tree({ "a/tool": 0o755, "b/tool": 0o755, "b/other": 0o755 });
    const path = `${folder}/missing:${folder}/a:${folder}/b`;
    expect(findProgram("tool", "/", path)).toBe(join(folder, "a/tool"));
    expect(findProgram("other", "/", path)).toBe(join(folder, "b/other"));
  });

  it("takes an empty entry and a relative one as folders below the working folder", () => {
    const folder = tree({ "work/tool": 0o755, "work/sub/other": 0o755 });
    const cwd = join(folder, "work");
    for (const path of ["", ":/bin", "/nowhere:", "/nowhere::/bin"]) {
      expect(findProgram("tool", cwd, path)).toBe(join(cwd, "tool"));
    }
    expect(findProgram("other", cwd, "sub")).toBe(join(cwd, "sub/other"));
    fails(
      () => findProgram("tool", cwd, "/nowhere"),
      "program-not-found",
      /"tool" was not found.*on the PATH \/nowhere/,
    );
  });

  it("passes over folders and what may not be executed, as execvp(3) does", () => {
    const folder = tree({ "b/tool": 0o644, "c/tool": 0o755, "d/data": 0o600 });
    mkdirSync(join(folder, "a/tool"), { recursive: true });
    const path = ["a", "b", "c", "d"].map((name) => join(folder, name)).join(":");
    expect(findProgram("tool", "/", path)).toBe(join(folder, "c/tool"));
    fails(
      () => findProgram("data", "/", path),
      "program-not-executable",
      new RegExp(`${folder}/d/data is not executable`),
    );
    fails(() => findProgram("tool", "/", join(folder, "a")), "program-not-found", /was not found/);
  });

  it("follows links, and passes over those that lead nowhere or in circles", () => {
    const folder = tree({ "real/tool": 0o755 });
    mkdirSync(join(folder, "links"));
    symlinkSync("../real/tool", join(folder, "links/tool"));
    symlinkSync("nowhere", join(folder, "links/dead"));
    symlinkSync("circle", join(folder, "links/circle"));
    const path = join(folder, "links");
    // The link itself, since a program may look at the name by which it was called.
    expect(findProgram("tool", "/", path)).toBe(join(folder, "links/tool"));
    for (const name of ["dead", "circle"]) fails(() => findProgram(name, "/", path), "program-not-found", /not found/);
  });

  it("takes a name with a slash from the working folder, never from the PATH", () => {
    const folder = tree({ "work/bin/tool": 0o755, "work/plain": 0o644, "other/bin/tool": 0o755 });
    const cwd = join(folder, "work");
    for (const name of ["bin/tool", "./bin/tool", join(cwd, "bin/tool"), "../work/bin/tool"]) {
      expect(findProgram(name, cwd, join(folder, "other"))).toBe(join(cwd, "bin/tool"));
    }
    fails(() => findProgram("./tool", cwd, join(cwd, "bin")), "program-not-found", /no such file/);
    fails(() => findProgram("./plain", cwd, ""), "program-not-executable", /plain is not executable/);
    fails(() => findProgram("./bin", cwd, ""), "program-not-found", /no such file/);
  });

  it("refuses names that are none", () => {
    fails(() => findProgram("", "/", "/bin"), "program-not-found", /argv\[0\] is empty/);
    fails(() => findProgram("a\0b", "/", "/bin"), "program-not-found", /not found/);
    fails(() => findProgram("x".repeat(300), "/", "/bin"), "program-not-found", /not found/);
  });
});

describe("the working folder", () => {
  function workspace(): { root: string; outside: string } {
    const folder = realpathSync(scratchFolder());
    for (const name of ["root/sub/deeper", "root-2", "outside"]) mkdirSync(join(folder, name), { recursive: true });
    writeFileSync(join(folder, "root/file"), "");
    return { root: join(folder, "root"), outside: join(folder, "outside") };
  }

  it("is the root when none is named, and a folder below it otherwise", () => {
    const { root } = workspace();
    expect(resolveCwd(root, undefined)).toBe(root);
    for (const cwd of ["", ".", "./", "sub/."]) {
      expect(resolveCwd(root, cwd)).toBe(cwd.startsWith("sub") ? join(root, "sub") : root);
    }
    expect(resolveCwd(root, "sub//deeper/")).toBe(join(root, "sub/deeper"));
  });

  it("is resolved through links that stay inside", () => {
    const { root } = workspace();
    symlinkSync("sub/deeper", join(root, "link"));
    symlinkSync(join(root, "sub"), join(root, "absolute"));
    symlinkSync("link", join(root, "twice"));
    symlinkSync(".", join(root, "self"));
    expect(resolveCwd(root, "link")).toBe(join(root, "sub/deeper"));
    expect(resolveCwd(root, "absolute/deeper")).toBe(join(root, "sub/deeper"));
    expect(resolveCwd(root, "twice")).toBe(join(root, "sub/deeper"));
    expect(resolveCwd(root, "self/self/sub")).toBe(join(root, "sub"));
  });

  it("may have a root that is reached through a link", () => {
    const { root, outside } = workspace();
    symlinkSync(root, join(outside, "link-to-root"));
    expect(resolveCwd(join(outside, "link-to-root"), "sub")).toBe(join(root, "sub"));
  });

  it("is refused when it leads out", () => {
    const { root, outside } = workspace();
    symlinkSync(outside, join(root, "out"));
    symlinkSync("..", join(root, "up"));
    symlinkSync("../root-2", join(root, "neighbour"));
    symlinkSync("out", join(root, "twice"));
    for (const cwd of ["out", "up", "up/outside", "neighbour", "twice", "sub/../out"].filter(
      (cwd) => !cwd.includes(".."),
    ))
      fails(() => resolveCwd(root, cwd), "cwd-outside-workspace", /leads out of the workspace/);
    for (const cwd of ["..", "../root-2", "sub/../..", "sub/..", "../root", "a/../b"])
      fails(() => resolveCwd(root, cwd), "cwd-outside-workspace", /contains \.\./);
    for (const cwd of ["/", root, outside, "//x"])
      fails(() => resolveCwd(root, cwd), "cwd-outside-workspace", /is absolute/);
    fails(() => resolveCwd(root, "sub\0/../.."), "cwd-outside-workspace", /contains a NUL byte/);
  });

  it("is refused when it is a file, missing, a dead link or a circle", () => {
    const { root } = workspace();
    symlinkSync("nowhere", join(root, "dead"));
    symlinkSync("circle", join(root, "circle"));
    fails(() => resolveCwd(root, "file"), "cwd-missing", /"file" is not a folder in the workspace/);
    for (const cwd of ["missing", "sub/missing", "file/below", "dead", "circle", "x".repeat(300), "...", "sub/..."])
      fails(() => resolveCwd(root, cwd), "cwd-missing", /does not exist in the workspace/);
  });
});

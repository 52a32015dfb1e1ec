import { createHash } from "node:crypto";
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { buffer } from "node:stream/consumers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { RuntimeOptions } from "../../src/ssh/options.ts";
import { findHelper, requireHelper, supplyHelper, workspaceShape } from "../../src/wrapper/helper.ts";
import { scratchFolder } from "../support/scratch-folder.ts";

const options = (helper: string | false | undefined) => ({ host: "h", helper }) as unknown as RuntimeOptions;

let folder: string;
beforeEach(() => {
  folder = scratchFolder();
  vi.stubEnv("PASEO_SSH_RUNTIME_DIR", join(folder, "run"));
});
afterEach(() => vi.unstubAllEnvs());

function file(path: string, content: string | Buffer): string {
  const full = join(folder, path);
  mkdirSync(dirname(full), { recursive: true });
  writeFileSync(full, content);
  chmodSync(full, 0o755);
  return full;
}

describe("the helper that goes to the host", () => {
  it.each<[string, string | Buffer, { fileName: string; interpreter: string }]>([
    ["a/helper.cjs", "x", { fileName: "paseo-workspace-helper.cjs", interpreter: "node" }],
    ["a/helper.mjs", "x", { fileName: "paseo-workspace-helper.mjs", interpreter: "node" }],
    ["commonjs/helper.js", "x", { fileName: "paseo-workspace-helper.cjs", interpreter: "node" }],
    ["module/bin/helper.js", "x", { fileName: "paseo-workspace-helper.mjs", interpreter: "node" }],
    ["module/bin/helper", "#!/usr/bin/env node\nx", { fileName: "paseo-workspace-helper.mjs", interpreter: "node" }],
    ["a/helper", "#!/usr/bin/node\nx", { fileName: "paseo-workspace-helper.cjs", interpreter: "node" }],
    ["a/shell", "#!/bin/sh\nnode x", { fileName: "paseo-workspace-helper", interpreter: "none" }],
    [
      "a/binary",
      Buffer.from([0x7f, 0x45, 0x4c, 0x46, 0, 0]),
      { fileName: "paseo-workspace-helper", interpreter: "none" },
    ],
    ["a/empty", "", { fileName: "paseo-workspace-helper", interpreter: "none" }],
  ])("%s is told apart by its name, first line and package", (path, content, expected) => {
    file("module/package.json", '{"type":"module"}');
    file("commonjs/package.json", "{}");
    file("package.json", "{}");
    const full = file(path, content);
    expect(findHelper(options(full))).toEqual({
      path: full,
      identity: { ...expected, size: content.length, sha256: createHash("sha256").update(content).digest("hex") },
    });
  });

  it("is found through links and below the home folder", () => {
    const full = file("home/real/helper.cjs", "x");
    symlinkSync(full, join(folder, "home", "link"));
    vi.stubEnv("HOME", join(folder, "home"));
    expect(findHelper(options("~/link"))?.path).toBe(full);
  });

  it("is none when the options say so, and required otherwise", () => {
    expect(findHelper(options(false))).toBeUndefined();
    expect(requireHelper(options(false))).toBeUndefined();
    expect(supplyHelper(undefined)).toEqual({});
    for (const path of [join(folder, "missing"), folder]) {
      expect(() => findHelper(options(path))).toThrow(
        expect.objectContaining({ code: "helper-not-found", message: expect.stringContaining(path) }),
      );
    }
  });

  it("shapes requests, and is supplied as it is", async () => {
    const helper = findHelper(options(file("a/helper.cjs", "the content")))!;
    expect(workspaceShape(options(false), undefined)).toEqual({ environment: { path: [], env: {} } });
    expect(workspaceShape({ path: ["~/bin"], env: { A: "1" } } as unknown as RuntimeOptions, helper)).toEqual({
      environment: { path: ["~/bin"], env: { A: "1" } },
      helper: helper.identity,
    });
    const { supply, stream } = await supplyHelper(helper).helper!({ what: "helper" });
    expect(supply).toEqual({ what: "helper" });
    expect((await buffer(stream)).toString()).toBe("the content");
  });
});

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, expect } from "vitest";
import { type RepositoryCopy, runNode, test } from "../support/repository-copy.ts";

const setup = (copy: RepositoryCopy) => copy.run("scripts/setup.mjs", "--offline");

/** Process id of a program that has ended. */
async function endedProcess(): Promise<number> {
  const child = spawn(process.execPath, ["-e", "0"], { stdio: "ignore" });
  await once(child, "exit");
  return child.pid!;
}

describe("setup", () => {
  test("on a fresh clone installs and builds, with one line each", async ({ copy }) => {
    rmSync(join(copy.root, "node_modules"), { recursive: true });
    const { code, stdout, stderr } = await setup(copy);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toMatch(/^dependencies installed in [\d.]+ s\ndist built in [\d.]+ s.*\n$/);
    expect(copy.npmCalls()).toEqual(["ci --ignore-scripts --no-audit --no-fund --loglevel=error"]);
    expect(existsSync(join(copy.root, "dist/wrapper.cjs"))).toBe(true);
  });

  test("does nothing and says nothing when all is current", async ({ copy }) => {
    await setup(copy);
    const before = statSync(join(copy.root, "dist"));
    expect(await setup(copy)).toEqual({ code: 0, stdout: "", stderr: "" });
    const after = statSync(join(copy.root, "dist"));
    expect([after.ino, after.mtimeMs]).toEqual([before.ino, before.mtimeMs]);
    expect(copy.npmCalls()).toEqual([]);
    expect(readdirSync(copy.root).filter((name) => name.startsWith(".setup-lock"))).toEqual([]);
  });

  test("takes over packages that npm itself installed", async ({ copy }) => {
    expect((await setup(copy)).stdout).toMatch(/^dist built/);
    expect(copy.npmCalls()).toEqual([]);
  });

  test("installs again when package-lock.json asks for something else", async ({ copy }) => {
    await setup(copy);
    const lock = JSON.parse(copy.read("package-lock.json"));
    lock.packages["node_modules/tar"].version = "7.0.0";
    copy.write("package-lock.json", JSON.stringify(lock));
    expect((await setup(copy)).stdout).toMatch(/^dependencies installed.*\ndist built/);
    expect(copy.npmCalls()).toHaveLength(1);
    expect((await setup(copy)).stdout).toBe("");
  });

  test("builds again when a source of a bundle changed, and only then", async ({ copy }) => {
    copy.write("src/cli/main.ts", 'import { text } from "./text.ts";\nconsole.log(text);\n');
    copy.write("src/cli/text.ts", 'export const text = "old";\n');
    copy.write("src/cli/unused.ts", "export {};\n");
    await setup(copy);
    copy.write("src/cli/unused.ts", "export const other = 1;\n");
    expect((await setup(copy)).stdout).toBe("");
    copy.write("src/cli/text.ts", 'export const text = "new";\n');
    expect((await setup(copy)).stdout).toMatch(/^dist built/);
    expect((await runNode([join(copy.root, "dist/cli.cjs")])).stdout).toBe("new\n");
  });

  test("does not take a partial dist for a whole one", async ({ copy }) => {
    rmSync(join(copy.root, "src/broker/main.ts"));
    await copy.run("scripts/build.mjs", "--partial");
    expect(await setup(copy)).toMatchObject({ code: 1, stderr: expect.stringContaining("src/broker/main.ts") });
    copy.write("src/broker/main.ts", 'console.log("broker");\n');
    expect((await setup(copy)).stdout).toMatch(/^dist built/);
  });

  test("several at once install and build once", async ({ copy }) => {
    rmSync(join(copy.root, "node_modules"), { recursive: true });
    const results = await Promise.all([setup(copy), setup(copy), setup(copy)]);
    expect(results.map(({ code, stderr }) => ({ code, stderr }))).toEqual(Array(3).fill({ code: 0, stderr: "" }));
    expect(copy.npmCalls()).toHaveLength(1);
    expect(results.filter(({ stdout }) => stdout.includes("dist built"))).toHaveLength(1);
  });

  test("takes over the lock of a setup that was killed", async ({ copy }) => {
    copy.write(".setup-lock/pid", String(await endedProcess()));
    expect(await setup(copy)).toMatchObject({ code: 0, stdout: expect.stringMatching(/^dist built/) });
    expect(readdirSync(copy.root).filter((name) => name.startsWith(".setup-lock"))).toEqual([]);
  });

  test("waits for a setup that is alive, and says for which", async ({ copy }) => {
    copy.write(".setup-lock/pid", String(process.pid));
    const setupProcess = spawn(process.execPath, [join(copy.root, "scripts/setup.mjs"), "--offline"]);
    const [said] = await once(setupProcess.stdout, "data");
    expect(String(said)).toBe(`waiting for another setup (process ${process.pid})\n`);
    expect(existsSync(join(copy.root, "dist"))).toBe(false);
    rmSync(join(copy.root, ".setup-lock"), { recursive: true });
    expect(await once(setupProcess, "close")).toEqual([0, null]);
    expect(existsSync(join(copy.root, "dist/wrapper.cjs"))).toBe(true);
  });

  test("shows what npm said when it failed, and leaves no lock", async ({ copy }) => {
    rmSync(join(copy.root, "node_modules"), { recursive: true });
    copy.write("programs/npm", "#!/bin/sh\necho no such registry >&2\nexit 7\n");
    const { code, stderr } = await setup(copy);
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: "setup failed: npm ci ended with exit 7.\nno such registry\n",
    });
    expect(existsSync(join(copy.root, ".setup-lock"))).toBe(false);
  });

  test("says which Node is needed", async ({ copy }) => {
    const about = JSON.parse(copy.read("package.json"));
    copy.write("package.json", JSON.stringify({ ...about, engines: { node: ">=98.6" } }));
    const { code, stderr } = await setup(copy);
    expect(code).toBe(1);
    expect(stderr).toMatch(/^setup failed: Node 98\.6 or newer is needed; this is Node \d+\.\d+\.\d+ \(.+\)\.\n$/);
  });
});

describe("the launcher", () => {
  test("can be executed and runs the built wrapper", async ({ copy }) => {
    await setup(copy);
    expect(statSync(join(copy.root, "bin/paseo-ssh-runtime.cjs")).mode & 0o111).toBe(0o111);
    expect(await copy.run("bin/paseo-ssh-runtime.cjs")).toEqual({ code: 0, stdout: "ran\n", stderr: "" });
  });

  test("without a dist says how to get one", async ({ copy }) => {
    expect(await copy.run("bin/paseo-ssh-runtime.cjs")).toEqual({
      code: 1,
      stdout: "",
      stderr: "paseo-ssh-runtime has not been built. Run `npm run build` in its folder. [usage]\n",
    });
  });

  test("does not hide a module that the wrapper itself cannot find", async ({ copy }) => {
    copy.write("dist/wrapper.cjs", 'require("./absent.cjs");\n');
    const { code, stderr } = await copy.run("bin/paseo-ssh-runtime.cjs");
    expect(code).toBe(1);
    expect(stderr).toContain("Cannot find module './absent.cjs'");
  });
});

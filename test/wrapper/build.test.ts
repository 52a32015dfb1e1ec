import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { create } from "tar";
import { describe, expect } from "vitest";
import { BUNDLES, REPOSITORY, runNode, test } from "../support/repository-copy.ts";

const PLATFORMS = ["darwin-arm64", "darwin-x64", "linux-arm64", "linux-x64"];

/** For a stand-in npm: the folder after --pack-destination. */
const FIND_DESTINATION = 'while [ "$1" != --pack-destination ]; do shift; done; destination=$2';

interface Manifest {
  build: string;
  files: { path: string; sha256: string; size: number; mode: number; platform?: string }[];
}

describe("a build", () => {
  test("gives one file per entry point, and they run", async ({ copy }) => {
    const result = await copy.run("scripts/build.mjs");
    expect(result).toMatchObject({ code: 0, stderr: "" });
    for (const { output } of BUNDLES) {
      expect(await runNode([join(copy.root, "dist", output)])).toEqual({ code: 0, stdout: "ran\n", stderr: "" });
    }
  });

  test("leaves no other folder behind and does not touch a dist that is right", async ({ copy }) => {
    await copy.run("scripts/build.mjs");
    const before = statSync(join(copy.root, "dist")).ino;
    expect((await copy.run("scripts/build.mjs")).stdout).toContain("dist unchanged");
    expect(statSync(join(copy.root, "dist")).ino).toBe(before);
    expect(readdirSync(copy.root).filter((name) => name.startsWith("dist"))).toEqual(["dist"]);
  });

  test("two at once both succeed", async ({ copy }) => {
    const results = await Promise.all([copy.run("scripts/build.mjs"), copy.run("scripts/build.mjs")]);
    expect(results.map(({ code, stderr }) => ({ code, stderr }))).toEqual([
      { code: 0, stderr: "" },
      { code: 0, stderr: "" },
    ]);
    expect(readdirSync(copy.root).filter((name) => name.startsWith("dist"))).toEqual(["dist"]);
  });

  test("names a missing entry point and leaves dist alone; --partial builds the rest", async ({ copy }) => {
    rmSync(join(copy.root, "src/broker/main.ts"));
    const failed = await copy.run("scripts/build.mjs");
    expect(failed.code).toBe(1);
    expect(failed.stderr).toContain("src/broker/main.ts");
    expect(readdirSync(copy.root)).not.toContain("dist");

    expect((await copy.run("scripts/build.mjs", "--partial")).code).toBe(0);
    expect(readdirSync(join(copy.root, "dist"))).toContain("wrapper.cjs");
    expect(readdirSync(join(copy.root, "dist"))).not.toContain("broker.cjs");
  });

  test("has a name that changes with everything in it", async ({ copy }) => {
    copy.write("src/wrapper/main.ts", "declare const __PASEO_BUILD__: string;\nconsole.log(__PASEO_BUILD__);\n");
    const name = async () => {
      expect(await copy.run("scripts/build.mjs")).toMatchObject({ code: 0, stderr: "" });
      return (await runNode([join(copy.root, "dist/wrapper.cjs")])).stdout.trim();
    };
    const first = await name();
    expect(first).toMatch(/^[0-9a-f]{16}$/);
    copy.write("src/broker/main.ts", '// a comment changes nothing\nconsole.log("ran");\n');
    expect(await name()).toBe(first);
    copy.write("src/broker/main.ts", 'console.log("another broker");\n');
    expect(await name()).not.toBe(first);
  });

  test("says where a source is wrong", async ({ copy }) => {
    copy.write("src/cli/main.ts", 'import { absent } from "./other.ts";\nconsole.log(absent);\n');
    copy.write("src/cli/other.ts", "export const present = 1;\n");
    const { code, stderr } = await copy.run("scripts/build.mjs");
    expect(code).toBe(1);
    expect(stderr).toContain('src/cli/main.ts:1: No matching export in "src/cli/other.ts" for import "absent"');
    expect(stderr).not.toContain("    at ");
  });
});

describe("what a bundle may hold", () => {
  test("names all that does not belong there", async ({ copy }) => {
    copy.write("src/wrapper/main.ts", 'import { string } from "zod/mini";\nconsole.log(string());\n');
    copy.write(
      "src/wrapper/exec/exec.ts",
      [
        'import { Command } from "commander";',
        'import { Client } from "ssh2";',
        'import { Header } from "tar";',
        'import * as full from "zod";',
        'import * as mini from "zod/mini";',
        "console.log(Command, Client, Header, full.string(), mini.locales.en());",
      ].join("\n"),
    );
    copy.write("remote-agent/main.ts", 'import { Client } from "ssh2";\nnew Client();\n');
    copy.write("remote-agent/bootstrap.ts", `console.log("${"x".repeat(40_000)}");\n`);
    copy.write("src/cli/main.ts", "console.log(import.meta.url);\n");
    const { code, stderr } = await copy.run("scripts/build.mjs");
    expect(code).toBe(1);
    for (const problem of [
      "wrapper.cjs must not contain zod (",
      "exec.cjs must not load commander.",
      "exec.cjs must not load ssh2.",
      "exec.cjs must not contain tar (",
      "exec.cjs must not contain zod/v4/classic (",
      "exec.cjs must not contain zod's locales other than en.js.",
      "agent/agent.cjs must not load ssh2.",
      "it must stay below 40000.",
      'src/cli/main.ts:1: "import.meta" is not available with the "cjs" output format',
    ]) {
      expect(stderr).toContain(problem);
    }
  });

  test("the contract may use zod/mini with the English messages, and the broker loads ssh2 when it runs", async ({
    copy,
  }) => {
    copy.write(
      "src/wrapper/contract-bundle.ts",
      [
        'import * as z from "zod/mini";',
        'import en from "zod/v4/locales/en.js";',
        "z.config(en());",
        'console.log(z.strictObject({ a: z.string() }).safeParse({ a: "", b: 1 }).error.issues[0].message);',
      ].join("\n"),
    );
    copy.write("src/broker/main.ts", 'import { Client } from "ssh2";\nconsole.log(typeof new Client().connect);\n');
    expect(await copy.run("scripts/build.mjs")).toMatchObject({ code: 0, stderr: "" });
    expect((await runNode([join(copy.root, "dist/contract.cjs")])).stdout).toBe('Unrecognized key: "b"\n');
    expect((await runNode([join(copy.root, "dist/broker.cjs")])).stdout).toBe("function\n");
    expect(copy.read("dist/contract.cjs").length).toBeLessThan(60_000);
  });

  test("the bootstrap parses on old Node: no syntax after ES2015, no node: prefix", async ({ copy }) => {
    copy.write(
      "remote-agent/bootstrap.ts",
      'import { existsSync } from "node:fs";\nexport async function f(a?: { b?: number }) {\n  try { return a?.b ?? existsSync("/"); } catch { return 0; }\n}\nvoid f();\n',
    );
    expect((await copy.run("scripts/build.mjs")).code).toBe(0);
    const text = copy.read("dist/agent/bootstrap.cjs");
    expect(text).toContain('require("fs")');
    expect(text).not.toMatch(/async |await |\?\.|\?\?|catch\{/);
  });
});

describe("the manifest", () => {
  test("lists what a host gets, with true hashes and sizes", async ({ copy }) => {
    await copy.run("scripts/build.mjs");
    const manifest: Manifest = JSON.parse(copy.read("dist/agent/manifest.json"));
    expect(manifest.build).toMatch(/^[0-9a-f]{16}$/);
    const paths = manifest.files.map(({ path }) => path);
    expect(paths).toContain("agent.cjs");
    expect(paths).toEqual([...paths].sort());
    const onDisk = readdirSync(join(copy.root, "dist/agent"), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name).slice(join(copy.root, "dist/agent/").length));
    expect([...paths, "bootstrap.cjs", "manifest.json"].sort()).toEqual(onDisk.sort());
    for (const file of manifest.files) {
      const content = readFileSync(join(copy.root, "dist/agent", file.path));
      expect(file.sha256).toBe(createHash("sha256").update(content).digest("hex"));
      expect(file.size).toBe(content.length);
      expect(file.mode).toBe(0o644);
      expect(file.platform).toBe(/^pty\/([^/]+)\//.exec(file.path)?.[1]);
    }
  });

  test("names the build by what is in it", async ({ copy }) => {
    const buildName = async () => {
      expect((await copy.run("scripts/build.mjs")).code).toBe(0);
      return (JSON.parse(copy.read("dist/agent/manifest.json")) as Manifest).build;
    };
    const first = await buildName();
    copy.write("src/cli/main.ts", 'console.log("not deployed");\n');
    expect(await buildName()).toBe(first);
    rmSync(join(copy.root, "dist"), { recursive: true });
    expect(await buildName()).toBe(first);
    copy.write("remote-agent/main.ts", 'console.log("another agent");\n');
    expect(await buildName()).not.toBe(first);
  });
});

describe("terminal modules of other platforms", () => {
  test("a plain build says which are missing, --all-platforms insists", async ({ copy }) => {
    const plain = await copy.run("scripts/build.mjs");
    expect(plain.code).toBe(0);
    expect(plain.stdout.split("\n").filter((line) => line.includes("no terminal module for"))).toHaveLength(1);
    expect(copy.npmCalls()).toEqual([]);

    // The copy's npm refuses to pack, as the real one does without a network.
    const insisting = await copy.run("scripts/build.mjs", "--all-platforms");
    expect(insisting.code).toBe(1);
    expect(insisting.stderr).toContain("npm pack @lydell/node-pty-");
    expect(copy.npmCalls()).toHaveLength(1);
  });

  test("--all-platforms takes those that npm fetches, checks them, and keeps them for later builds", async ({
    copy,
  }) => {
    const archives = join(copy.root, "archives");
    const lock = JSON.parse(copy.read("package-lock.json"));
    for (const platform of PLATFORMS) {
      const files = platform.startsWith("darwin") ? ["pty.node", "spawn-helper"] : ["pty.node"];
      for (const file of files) copy.write(`made/${platform}/package/${file}`, `${file} of ${platform}`);
      const { version } = lock.packages[`node_modules/@lydell/node-pty-${platform}`];
      const archive = join(archives, `lydell-node-pty-${platform}-${version}.tgz`);
      mkdirSync(archives, { recursive: true });
      await create({ gzip: true, file: archive, cwd: join(copy.root, "made", platform) }, ["package"]);
      const digest = createHash("sha512").update(readFileSync(archive)).digest("base64");
      lock.packages[`node_modules/@lydell/node-pty-${platform}`].integrity = `sha512-${digest}`;
    }
    copy.write("package-lock.json", JSON.stringify(lock));
    copy.write("programs/npm", `#!/bin/sh\n${FIND_DESTINATION}\ncp "$COPY_ROOT"/archives/* "$destination"\n`);

    expect(await copy.run("scripts/build.mjs", "--all-platforms")).toMatchObject({ code: 0, stderr: "" });
    expect(copy.read("dist/agent/pty/darwin-x64/spawn-helper")).toBe("spawn-helper of darwin-x64");
    const { files } = JSON.parse(copy.read("dist/agent/manifest.json")) as Manifest;
    expect(files.find(({ path }) => path === "pty/darwin-arm64/spawn-helper")?.mode).toBe(0o755);
    expect(new Set(files.flatMap(({ platform }) => platform ?? []))).toEqual(new Set(PLATFORMS));

    copy.write("programs/npm", "#!/bin/sh\nexit 1\n");
    const later = await copy.run("scripts/build.mjs");
    expect(later).toMatchObject({ code: 0, stderr: "" });
    expect(later.stdout).toContain("dist unchanged");
  });

  test("a fetched package that is not the one in package-lock.json ends the build", async ({ copy }) => {
    const forge = `for platform in ${PLATFORMS.join(" ")}; do echo forged > "$destination/lydell-node-pty-$platform-1.1.0.tgz"; done`;
    copy.write("programs/npm", `#!/bin/sh\n${FIND_DESTINATION}\n${forge}\n`);
    const { code, stderr } = await copy.run("scripts/build.mjs", "--all-platforms");
    expect(code).toBe(1);
    expect(stderr).toContain("package-lock.json says sha512-");
    expect(readdirSync(copy.root)).not.toContain("dist");
  });
});

test("this repository's own entry points build by these rules", async ({ copy }) => {
  const into = join(copy.root, "own-dist");
  const { code, stderr } = await runNode([join(REPOSITORY, "scripts/build.mjs"), "--into", into]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  // It runs at every operation: 7 kB when this was written.
  expect(statSync(join(into, "wrapper.cjs")).size).toBeLessThan(20_000);
});

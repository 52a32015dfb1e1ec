import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect } from "vitest";
import { REPOSITORY, type RepositoryCopy, runNode, test } from "../support/repository-copy.ts";

/** In two parts, so that the check of this repository does not find them here. */
const left = (unit: string, how: string) => [unit, how].join(".");

describe("the check of dependency directions", () => {
  const check = (copy: RepositoryCopy) => {
    for (const name of ["contract", "wire", "ssh"]) mkdirSync(join(copy.root, "src", name), { recursive: true });
    return runNode([join(REPOSITORY, "scripts/check-dependencies.mjs"), copy.root]);
  };

  test("accepts what the design allows", async ({ copy }) => {
    copy.write(
      "src/wrapper/main.ts",
      'import { a } from "../ssh/a.ts";\nimport * as z from "zod/mini";\nimport "./b.ts";\n',
    );
    copy.write(
      "remote-agent/main.ts",
      'import { readFileSync } from "node:fs";\nexport * from "../src/wire/frame.ts";\n',
    );
    copy.write("src/ssh/a.ts", 'throw new Error("no answer from \\"../broker/x.ts\\"");\n');
    expect(await check(copy)).toEqual({ code: 0, stdout: "", stderr: "" });
  });

  test("refuses every other direction and package, in every form of import", async ({ copy }) => {
    const violations = [
      [
        "src/broker/deep/a.ts",
        'export { x } from "../../wrapper/x.ts";',
        "src/broker/deep/a.ts imports src/wrapper/x.ts;",
      ],
      ["src/contract/a.ts", 'import "../wire/frame.ts";', "src/contract/a.ts imports src/wire/frame.ts;"],
      ["src/ssh/a.ts", 'import type {\n  X,\n  Y,\n} from "../cli/x.ts";', "src/ssh/a.ts imports src/cli/x.ts;"],
      ["src/wire/a.ts", 'const x = await import("../ssh/x.ts");', "src/wire/a.ts imports src/ssh/x.ts;"],
      ["src/wrapper/a.ts", 'import { x } from "../broker/x.ts";', "src/wrapper/a.ts imports src/broker/x.ts;"],
      ["src/wrapper/b.ts", 'import { Command } from "commander";', "src/wrapper/b.ts imports commander;"],
      ["src/wrapper/c.ts", 'const { x } = require("../cli/x.ts");', "src/wrapper/c.ts imports src/cli/x.ts;"],
      ["remote-agent/a.ts", 'type X = import("../src/ssh/x.ts").X;', "remote-agent/a.ts imports src/ssh/x.ts;"],
      ["remote-agent/b.ts", 'import { Client } from "ssh2";', "remote-agent/b.ts imports ssh2;"],
      ["src/other/a.ts", "export {};", "src/other has no rules here"],
    ] as const;
    for (const [path, text] of violations) copy.write(path, `${text}\n`);
    const { code, stderr } = await check(copy);
    expect(code).toBe(1);
    for (const [, , expected] of violations) expect(stderr).toContain(expected);
    expect(stderr.trim().split("\n")).toHaveLength(violations.length);
  });
});

describe("the check that tests run", () => {
  const check = (copy: RepositoryCopy) => runNode([join(REPOSITORY, "scripts/check-tests.mjs"), copy.root]);

  test("refuses every way of leaving one out", async ({ copy }) => {
    const calls = [
      left("test", "skip"),
      left("it", "only"),
      left("describe", "todo"),
      left("test", "concurrent.only"),
      left("describe", "skipIf"),
      left("test", "fails"),
    ];
    copy.write("test/wire/a.test.ts", calls.map((call) => `  ${call}("a", () => {});\n`).join(""));
    const { code, stderr } = await check(copy);
    expect(code).toBe(1);
    expect(stderr.split("\n").slice(0, calls.length)).toEqual(
      calls.map((call, index) => `test/wire/a.test.ts:${index + 1}: ${call}`),
    );
  });

  test("accepts the rest", async ({ copy }) => {
    copy.write(
      "test/wire/a.test.ts",
      'test("skip only todo", () => expect(a.only).toBe(1));\ntest.for([1])("a", () => {});\n',
    );
    copy.write("test/support/requirements.ts", `export const describeReal = ${left("describe", "skipIf")}(true);\n`);
    expect(await check(copy)).toEqual({ code: 0, stdout: "", stderr: "" });
  });
});

describe("the closing line of a test run", () => {
  const vitest = join(REPOSITORY, "node_modules/vitest/vitest.mjs");
  const reporter = join(REPOSITORY, "test/support/plain-reporter.ts");

  async function run(copy: RepositoryCopy, source: string, ci: boolean) {
    copy.write("a.test.ts", `import { beforeAll, describe, expect, test } from "vitest";\n${source}`);
    const { CI: _, ...env } = process.env;
    const args = [vitest, "run", "--root", copy.root, "--reporter", "default", "--reporter", reporter];
    const { code, stdout } = await runNode(args, ci ? { ...env, CI: "true" } : env);
    return { code, lines: stdout.trimEnd().split("\n") };
  }

  test("counts failed tests, broken hooks, unhandled rejections and files that do not load", async ({ copy }) => {
    copy.write("b.test.ts", 'throw new Error("at load");\n');
    const { code, lines } = await run(
      copy,
      [
        'test("good", () => {});',
        'test("bad", () => expect(1).toBe(2));',
        'describe("broken", () => { beforeAll(() => { throw new Error("hook"); }); test("never", () => {}); });',
        'test("leaky", () => { Promise.reject(new Error("nobody waits")); });',
      ].join("\n"),
      true,
    );
    expect(code).toBe(1);
    expect(lines.at(-1)).toBe("2 passed, 4 failed, 1 skipped");
  });

  test("a skipped test fails the run on CI, by name, and nowhere else", async ({ copy }) => {
    const source = `test("a", () => {});\n${left("test", "skip")}("not today", () => {});\n`;
    const onCi = await run(copy, source, true);
    expect(onCi.code).toBe(1);
    expect(onCi.lines.slice(-2)).toEqual([
      "Skipped, which is not allowed on CI: not today",
      "1 passed, 0 failed, 1 skipped",
    ]);
    const elsewhere = await run(copy, source, false);
    expect({ code: elsewhere.code, last: elsewhere.lines.at(-1) }).toEqual({
      code: 0,
      last: "1 passed, 0 failed, 1 skipped",
    });
  });
});

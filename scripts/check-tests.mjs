// No test may be left out: fails when one is skipped, singled out, postponed or expected to fail.
// `node scripts/check-tests.mjs [ROOT]`
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = resolve(process.argv[2] ?? join(dirname(fileURLToPath(import.meta.url)), ".."));

/** The one place where tests may depend on the machine; the reporter refuses what it skips on CI. */
const EXCEPTION = "test/support/requirements.ts";

const LEFT_OUT =
  /\b(?:x?(?:test|it|describe)|suite|bench)(?:\.\w+)*\.(?:skip|skipIf|runIf|only|todo|fails)\b|\b(?:ctx|context)\.skip\(/g;

const problems = readdirSync(join(root, "test"), { withFileTypes: true, recursive: true })
  .filter((entry) => entry.isFile() && entry.name.endsWith(".ts"))
  .map((entry) => relative(root, join(entry.parentPath, entry.name)))
  .filter((path) => path !== EXCEPTION)
  .flatMap((path) =>
    readFileSync(join(root, path), "utf8")
      .split("\n")
      .flatMap((line, index) => (line.match(LEFT_OUT) ?? []).map((found) => `${path}:${index + 1}: ${found}`)),
  );
if (problems.length > 0) {
  console.error(`${problems.join("\n")}\nTests must run: mend them or remove them.`);
  process.exitCode = 1;
}

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { build } from "esbuild";
import { afterAll, beforeAll } from "vitest";

const REPOSITORY = resolve(import.meta.dirname, "../..");

/**
 * Makes a program of a TypeScript file of this repository, so that tests can run it as a process of its own on any Node.
 * Called at the top of a test file: it is there before the first test and hook of the file, and gone after the last.
 * @param entry path below the repository's root
 * @returns absolute path of the CommonJS file
 */
export function bundleProgram(entry: string): string {
  const folder = mkdtempSync(join(tmpdir(), "psr-program-"));
  const outfile = join(folder, `${basename(entry, ".ts")}.cjs`);
  beforeAll(async () => {
    // Where it is set, each start of node takes 40 ms longer; no program of the tests speaks TLS.
    delete process.env.NODE_EXTRA_CA_CERTS;
    await build({
      absWorkingDir: REPOSITORY,
      entryPoints: [entry],
      outfile,
      bundle: true,
      platform: "node",
      format: "cjs",
      target: "node18",
      logLevel: "error",
    });
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return outfile;
}

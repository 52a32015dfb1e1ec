import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { build } from "esbuild";
import { afterAll } from "vitest";

const REPOSITORY = resolve(import.meta.dirname, "../..");

/**
 * Makes a program of a TypeScript file of this repository, so that a test can run it as a process of its own on any
 * Node. It is removed after the tests of the calling file.
 * @param entry path below the repository's root
 * @returns absolute path of a CommonJS file
 */
export async function bundleProgram(entry: string): Promise<string> {
  // Where it is set, each start of node takes 40 ms longer; no program of the tests speaks TLS.
  delete process.env.NODE_EXTRA_CA_CERTS;
  const folder = mkdtempSync(join(tmpdir(), "psr-program-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const outfile = join(folder, `${basename(entry, ".ts")}.cjs`);
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
  return outfile;
}

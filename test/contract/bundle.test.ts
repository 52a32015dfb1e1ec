import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { build } from "esbuild";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

/** A wrapper reduced to the contract: one request in, one response out. */
const PROGRAM = `
  import { readFileSync } from "node:fs";
  import * as contract from "./index.ts";
  try {
    const request = contract.parseLifecycleRequest(readFileSync(0));
    const response = { protocolVersion: request.protocolVersion, type: "ok" };
    process.stdout.write(contract.encodeCommandRuntimeMessage(contract.CommandRuntimeLifecycleResponseSchema, response));
  } catch (error) {
    process.stderr.write(error.toLine() + "\\n");
    process.exitCode = 1;
  }
`;

let folder: string;
let program: string;
let size: number;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "contract-bundle-"));
  program = join(folder, "program.cjs");
  const { metafile } = await build({
    stdin: {
      contents: PROGRAM,
      resolveDir: fileURLToPath(new URL("../../src/contract", import.meta.url)),
      loader: "ts",
    },
    outfile: program,
    bundle: true,
    minify: true,
    format: "cjs",
    platform: "node",
    metafile: true,
  });
  size = Object.values(metafile.outputs)[0]?.bytes ?? 0;
});

afterAll(() => rm(folder, { recursive: true, force: true }));

describe("the contract in a bundle", () => {
  it("stays small, because every wrapper reads it at its start", () => {
    // 35 KB as of zod 4.6; the locales that zod/mini can drag in are 260 KB.
    expect(size).toBeLessThan(48 * 1024);
  });

  it("works as a program, and its failures have words", async () => {
    expect(await run('{"options":{},"runtimeInstanceId":"a","protocolVersion":1}')).toEqual({
      code: 0,
      stdout: '{"type":"ok","protocolVersion":1}\n',
      stderr: "",
    });
    expect(await run('{"options":{},"runtimeInstanceId":"a","protocolVersion":1,"generation":1}')).toEqual({
      code: 1,
      stdout: "",
      stderr: 'Not a valid Paseo runtime message: Unrecognized key: "generation". [request-invalid]\n',
    });
  });
});

async function run(stdin: string): Promise<{ code: number; stdout: string; stderr: string }> {
  const running = promisify(execFile)(process.execPath, [program]);
  running.child.stdin?.end(stdin);
  try {
    return { code: 0, ...(await running) };
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
    return { code, stdout, stderr };
  }
}

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

/** A folder of this test's own, with nobody else's permission; gone when the test is over. */
export function scratchFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "psr-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

import { writeSync } from "node:fs";
import type { Reporter, SerializedError, TestModule } from "vitest/node";

/**
 * Ends a run with one line, `N passed, N failed`, that CI reads. What broke outside a test (a file that does not load, a
 * failed hook, an unhandled rejection) counts as failed. On CI a skipped test is a failure of the run: there, everything
 * that tests need is installed.
 */
export default class PlainReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly SerializedError[]): void {
    const tests = modules.flatMap((module) => [...module.children.allTests()]);
    const skipped = tests.filter((test) => test.result().state === "skipped");
    const passed = tests.filter((test) => test.result().state === "passed").length;
    // A test that is still pending was never run to its end.
    const unsuccessful = tests.length - passed - skipped.length;
    const containers = modules.flatMap((module) => [module, ...module.children.allSuites()]);
    const broken = containers.filter((container) => container.errors().length > 0).length;
    const failed = unsuccessful + broken + unhandledErrors.length;

    const lines: string[] = [];
    if (failed > 0) process.exitCode = 1;
    if (skipped.length > 0 && process.env.CI) {
      process.exitCode = 1;
      lines.push(`Skipped, which is not allowed on CI: ${skipped.map((test) => test.fullName).join("; ")}`);
    }
    lines.push(`${passed} passed, ${failed} failed${skipped.length > 0 ? `, ${skipped.length} skipped` : ""}`);
    // Last of all: the teardown of projects and vitest's own reporters may still print.
    process.once("exit", () => writeSync(1, `${lines.join("\n")}\n`));
  }
}

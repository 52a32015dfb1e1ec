import { defineConfig } from "vitest/config";

/** `fast` needs nothing but Node and git; `real` talks to a real OpenSSH server on loopback.
 *
 * CI may share its two cores, and these tests start thousands of processes; a test that fails there twice in a row has
 * failed. Locally each failure counts at once.
 */
const retry = process.env.CI === "true" ? 1 : 0;

export default defineConfig({
  test: {
    reporters: ["default", "./test/support/plain-reporter.ts"],
    projects: [
      {
        test: {
          name: "fast",
          include: ["test/{contract,wire,workspace,ssh,broker,wrapper,cli,remote-agent}/**/*.test.ts"],
          testTimeout: 60_000,
          retry,
        },
      },
      {
        test: {
          name: "real",
          include: ["test/real/**/*.test.ts"],
          globalSetup: ["test/support/global-setup.ts"],
          testTimeout: 90_000,
          hookTimeout: 90_000,
          retry,
        },
      },
    ],
  },
});

import { defineConfig } from "vitest/config";

/** `fast` needs nothing but Node and git; `real` talks to a real OpenSSH server on loopback. */
export default defineConfig({
  test: {
    reporters: ["default", "./test/support/plain-reporter.ts"],
    projects: [
      {
        test: {
          name: "fast",
          include: ["test/{contract,wire,workspace,ssh,broker,wrapper,cli,remote-agent}/**/*.test.ts"],
          testTimeout: 60_000,
        },
      },
      {
        test: {
          name: "real",
          include: ["test/real/**/*.test.ts"],
          globalSetup: ["test/support/global-setup.ts"],
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
    ],
  },
});

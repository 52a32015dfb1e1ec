import { createRequire } from "node:module";
import { join } from "node:path";

/**
 * Parts that most operations do not need, built as bundles of their own beside the wrapper's, so that a warm `inspect`
 * does not pay for them.
 */
interface LazyBundles {
  "start-broker": typeof import("./start-broker.ts");
  workspace: typeof import("../workspace/index.ts");
  /** src/cli is above this folder, so its shape is told here. */
  cli: { runCommand(args: readonly string[]): Promise<void> };
}

export function loadLazily<Name extends keyof LazyBundles>(name: Name): LazyBundles[Name] {
  return createRequire(__filename)(join(__dirname, `${name}.cjs`)) as LazyBundles[Name];
}

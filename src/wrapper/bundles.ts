import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Script } from "node:vm";
import { securePrivateFolder } from "../wire/private-folder.ts";
import { runtimeFolder } from "../wire/runtime-folder.ts";
import { buildName } from "./build.ts";

/**
 * Loads the parts of the wrapper. Each operation is a bundle of its own, since evaluating the modules of the others
 * would be most of its start-up time, and V8's compiled code is kept from one run to the next: that saves 10 of the
 * 25 ms that a bundle with schemas takes on Node 20 (measured; Node 22's own compile cache saves less).
 */
interface Bundles {
  lifecycle: typeof import("./operations/lifecycle.ts");
  create: typeof import("./operations/create.ts");
  exec: typeof import("./exec/exec.ts");
  contract: typeof import("./contract-bundle.ts");
  "start-broker": typeof import("./start-broker.ts");
  workspace: typeof import("../workspace/index.ts");
  /** src/cli is above this folder, so its shape is told here. */
  cli: { runCommand(args: readonly string[]): Promise<void> };
}

export function loadBundle<Name extends keyof Bundles>(name: Name): Bundles[Name] {
  const file = join(__dirname, `${name}.cjs`);
  const cache = codeCacheFile(name);
  const cachedData = cache === undefined ? undefined : readIfThere(cache);
  const source = `(function(exports,require,module,__filename,__dirname){${readFileSync(file, "utf8")}\n})`;
  const script = new Script(source, { filename: file, ...(cachedData === undefined ? {} : { cachedData }) });
  if (cache !== undefined && (cachedData === undefined || script.cachedDataRejected)) {
    // At the end of the run, so that it holds the functions that this kind of run has used.
    process.once("exit", () => writeQuietly(cache, script.createCachedData()));
  }
  const module = { exports: {} };
  // All of them lie in one folder, so what this file requires is found for them as well.
  script.runInThisContext()(module.exports, require, module, file, __dirname);
  return module.exports as Bundles[Name];
}

/**
 * Compiled code is trusted as the program itself is, so it is read only from a folder that nobody else can write to.
 * @returns undefined when there can be no such folder
 */
function codeCacheFile(name: string): string | undefined {
  const folder = runtimeFolder(process.env);
  try {
    securePrivateFolder(folder);
  } catch {
    return undefined;
  }
  return join(folder, `code-${buildName()}-${process.version}-${process.arch}-${name}`);
}

function readIfThere(path: string): Buffer | undefined {
  try {
    return readFileSync(path);
  } catch {
    return undefined;
  }
}

function writeQuietly(path: string, content: Buffer): void {
  const temporary = `${path}.${process.pid}`;
  try {
    writeFileSync(temporary, content, { mode: 0o600 });
    renameSync(temporary, path);
  } catch {
    // A full or vanished folder costs the next run a few milliseconds.
  }
}

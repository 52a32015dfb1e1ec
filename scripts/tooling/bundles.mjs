// The bundles of dist/: what each is made from, how, and what must never be inside it.
import { existsSync } from "node:fs";
import { builtinModules } from "node:module";
import { join } from "node:path";

/** Packages with native parts: they stay in node_modules and are loaded from there, by those bundles that may. */
const UNBUNDLED = ["keytar", "ssh2"];

/**
 * Stands in the bundles where the sources say __PASEO_BUILD__, until the name of the build is known; as long as such a
 * name.
 */
export const BUILD_PLACEHOLDER = "@@paseo-build@@@";

/** Each of these costs more start-up time than all of a warm operation (commander 15 ms, full zod 55 ms). */
const SLOW = ["commander", "p-queue", "ssh2", "tar", "zod/v4/classic"];

/**
 * entry, output: paths below the root and below dist.
 * loads: packages outside the bundle that it may require at run time.
 * without: what must not be inside, as a package, or a package and a folder in it.
 * maximum: largest size in bytes.
 */
export const BUNDLES = [
  // Runs at every operation, and loads one of the three below it.
  { entry: "src/wrapper/main.ts", output: "wrapper.cjs", target: ["node20"], loads: [], without: [...SLOW, "zod"] },
  ...["operations/lifecycle", "operations/create", "exec/exec"].map((name) => ({
    entry: `src/wrapper/${name}.ts`,
    output: `${name.split("/")[1]}.cjs`,
    target: ["node20"],
    loads: [],
    without: [...SLOW, "zod"],
  })),
  // The schemas, for what those three do not accept at a glance.
  { entry: "src/wrapper/contract-bundle.ts", output: "contract.cjs", target: ["node20"], loads: [], without: SLOW },
  // Only when no broker runs yet.
  { entry: "src/wrapper/start-broker.ts", output: "start-broker.cjs", target: ["node20"], loads: [] },
  { entry: "src/workspace/index.ts", output: "workspace.cjs", target: ["node20"], loads: [] },
  { entry: "src/broker/main.ts", output: "broker.cjs", target: ["node20"], loads: UNBUNDLED },
  // Started by the two, for each question to the keychain.
  { entry: "src/ssh/keychain-program.ts", output: "keychain.cjs", target: ["node20"], loads: UNBUNDLED },
  { entry: "src/cli/main.ts", output: "cli.cjs", target: ["node20"], loads: UNBUNDLED },
  { entry: "src/cli/demo/main.ts", output: "demo.cjs", target: ["node20"], loads: UNBUNDLED },
  { entry: "test/bench/main.ts", output: "bench.cjs", target: ["node20"], loads: UNBUNDLED },
  // Runs where nothing is installed, on the oldest Node that hosts may have.
  { entry: "remote-agent/main.ts", output: "agent/agent.cjs", target: ["node18"], loads: [] },
  {
    entry: "remote-agent/bootstrap.ts",
    output: "agent/bootstrap.cjs",
    // Must parse on any Node, so that it can say that this one is too old. "node10" also drops the "node:" prefix of
    // built-in modules, which Node before 14.18 does not know.
    target: ["es2015", "node10"],
    loads: [],
    // It travels inside a command line or a pipe of the login shell; one argument is limited to 128 KiB on Linux.
    maximum: 40_000,
  },
];

/** The entry points that do not exist below `root`. */
export function missingEntries(root) {
  return BUNDLES.map(({ entry }) => entry).filter((entry) => !existsSync(join(root, entry)));
}

/**
 * Builds one bundle in memory.
 * @returns {Promise<{path: string, content: Uint8Array, inputs: string[]}>} inputs: the files of this repository in it.
 * @throws {Error} with one sentence per problem.
 */
export async function bundle(root, description) {
  // Imported late: setup loads this file's neighbours on a machine where esbuild may not be installed yet.
  const esbuild = await import("esbuild");
  const result = await esbuild
    .build({
      absWorkingDir: root,
      entryPoints: [description.entry],
      outfile: join(root, "dist", description.output),
      write: false,
      bundle: true,
      platform: "node",
      format: "cjs",
      target: description.target,
      minifyWhitespace: true,
      minifySyntax: true,
      minifyIdentifiers: true,
      legalComments: "none",
      external: [...UNBUNDLED, ...["commander"].filter((name) => description.without?.includes(name))],
      define: {
        // The sources are ES modules, the bundles are CommonJS.
        "import.meta.dirname": "__dirname",
        "import.meta.filename": "__filename",
        __PASEO_BUILD__: JSON.stringify(BUILD_PLACEHOLDER),
      },
      metafile: true,
      logLevel: "silent",
    })
    .catch((error) => ({ errors: error.errors ?? [{ text: String(error) }], warnings: [] }));
  // Warnings are failures: each of them (an import that is undefined, an empty import.meta) is an error at run time.
  const messages = [...result.errors, ...result.warnings].map(describe);
  if (messages.length > 0) throw new Error(messages.join("\n"));

  const [output] = Object.values(result.metafile.outputs);
  const inside = Object.entries(output.inputs).flatMap(([path, { bytesInOutput }]) =>
    bytesInOutput > 0 ? [path] : [],
  );
  const content = result.outputFiles[0].contents;
  const problems = violations(description, inside, output.imports, content.length);
  if (problems.length > 0) throw new Error(problems.map((problem) => `${description.output} ${problem}.`).join("\n"));
  const inputs = Object.keys(result.metafile.inputs).filter((path) => !path.includes("node_modules/"));
  return { path: description.output, content, inputs };
}

function violations({ loads, without = [], maximum }, inside, imports, size) {
  const problems = [];
  for (const path of inside) {
    const name = path.split("node_modules/").at(-1);
    const forbidden = without.find((entry) => path.includes("node_modules/") && name.startsWith(`${entry}/`));
    if (forbidden !== undefined) problems.push(`must not contain ${forbidden} (${name})`);
    // `z.locales.en` drags in all fifty (290 KB); "zod/v4/locales/en.js" is the way to have one.
    if (/^zod\/v4\/locales\/(?!en\.js)/.test(name)) problems.push("must not contain zod's locales other than en.js");
  }
  for (const { path, external } of imports) {
    if (!external || path.startsWith("node:") || builtinModules.includes(path)) continue;
    if (loads.some((name) => path === name || path.startsWith(`${name}/`))) continue;
    problems.push(`must not load ${path}`);
  }
  if (maximum !== undefined && size >= maximum) problems.push(`has ${size} bytes; it must stay below ${maximum}`);
  return [...new Set(problems)];
}

function describe({ text, location }) {
  return location ? `${location.file}:${location.line}: ${text}` : text;
}

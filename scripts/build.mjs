// Builds dist/ in under two seconds: `node scripts/build.mjs [--all-platforms] [--partial] [--into FOLDER]`.
//   --all-platforms  fetch the terminal module of every platform, and fail when one cannot be had (for releases)
//   --partial        build the entry points that exist (while others are being written)
//   --into           another folder than dist/
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { BUILD_PLACEHOLDER, BUNDLES, bundle, missingEntries } from "./tooling/bundles.mjs";
import { BUILD_STAMP, buildStampText } from "./tooling/freshness.mjs";
import { buildName, manifestText } from "./tooling/manifest.mjs";
import { replaceFolder } from "./tooling/replace-folder.mjs";
import { collectTerminalModules } from "./tooling/terminal-modules.mjs";

const BOOTSTRAP = "agent/bootstrap.cjs";

/**
 * @param {string} root folder of package.json.
 * @param {{fetch?: "never" | "try" | "require", partial?: boolean, into?: string}} options see collectTerminalModules for
 *   `fetch`; `into` is the folder to replace, dist by default.
 * @returns {Promise<{sizes: [path: string, bytes: number][], missingPlatforms: string[], changed: boolean}>}
 * @throws {Error} with one sentence per problem; dist is then as it was.
 */
export async function buildDist(root, { fetch = "never", partial = false, into = join(root, "dist") } = {}) {
  const missing = missingEntries(root);
  if (missing.length > 0 && !partial) {
    throw new Error(`These entry points do not exist: ${missing.join(", ")}. --partial builds the others.`);
  }
  const descriptions = BUNDLES.filter(({ entry }) => !missing.includes(entry));
  const [terminals, ...bundles] = await settled([
    collectTerminalModules(root, fetch),
    ...descriptions.map((description) => bundle(root, description)),
  ]);

  const files = withBuildName([...bundles.map(({ path, content }) => ({ path, content })), ...terminals.files]);
  // The bootstrap is not deployed: it is sent along with the command that starts the agent.
  const deployed = files.filter(({ path }) => path.startsWith("agent/") && path !== BOOTSTRAP);
  const manifest = manifestText(deployed.map((file) => ({ ...file, path: file.path.slice("agent/".length) })));
  const stamp = buildStampText(
    root,
    bundles.flatMap(({ inputs }) => inputs),
    missing,
  );
  const changed = replaceFolder(into, [
    ...files,
    { path: "agent/manifest.json", content: manifest },
    { path: BUILD_STAMP, content: stamp },
  ]);
  return {
    sizes: bundles.map(({ path, content }) => [path, content.length]),
    missingPlatforms: terminals.missing,
    changed,
  };
}

/** One line about platforms whose hosts will have no terminals, or nothing. */
export function platformNote(missingPlatforms) {
  if (missingPlatforms.length === 0) return "";
  return `no terminal module for ${missingPlatforms.join(", ")}; "npm run build -- --all-platforms" fetches them`;
}

/** Writes the name of the build, which is a hash of everything in it, to where the sources ask for it. */
function withBuildName(files) {
  const name = buildName(files);
  return files.map((file) => {
    const content = Buffer.from(file.content);
    if (!content.includes(BUILD_PLACEHOLDER)) return file;
    return { ...file, content: Buffer.from(content.toString("utf8").replaceAll(BUILD_PLACEHOLDER, name)) };
  });
}

/** All results, or one error that tells all that failed. */
async function settled(promises) {
  const results = await Promise.allSettled(promises);
  const reasons = results.flatMap((result) => (result.status === "rejected" ? [result.reason.message] : []));
  if (reasons.length > 0) throw new Error([...new Set(reasons)].join("\n"));
  return results.map(({ value }) => value);
}

async function main() {
  const start = performance.now();
  const root = resolve(dirname(fileURLToPath(import.meta.url)), "..");
  const { values } = parseArgs({
    options: {
      "all-platforms": { type: "boolean", default: false },
      partial: { type: "boolean", default: false },
      into: { type: "string", default: join(root, "dist") },
    },
  });
  const { sizes, missingPlatforms, changed } = await buildDist(root, {
    fetch: values["all-platforms"] ? "require" : "never",
    partial: values.partial,
    into: resolve(values.into),
  });
  for (const [path, bytes] of sizes) console.log(`${path.padEnd(20)} ${(bytes / 1000).toFixed(1).padStart(7)} kB`);
  if (missingPlatforms.length > 0) console.log(platformNote(missingPlatforms));
  console.log(`dist ${changed ? "built" : "unchanged"} in ${Math.round(performance.now() - start)} ms`);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  main().catch((error) => {
    console.error(`build failed: ${error.message}`);
    process.exitCode = 1;
  });
}

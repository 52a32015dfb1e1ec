// Whether node_modules and dist fit the files that they were made from. Only built-in modules: this runs before npm ci.
import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Inside node_modules, so that it disappears with it; holds the hash of the package-lock.json that was installed. */
const INSTALL_STAMP = "node_modules/.paseo-setup";

/** Inside dist; says from what it was built. */
export const BUILD_STAMP = "build.json";

/** Everything beside the bundles' inputs that decides what a build gives. */
const BUILD_SCRIPTS = [
  "scripts/build.mjs",
  "scripts/tooling/bundles.mjs",
  "scripts/tooling/manifest.mjs",
  "scripts/tooling/terminal-modules.mjs",
];

export function isInstallCurrent(root) {
  return readText(join(root, INSTALL_STAMP)) === lockHash(root);
}

export function stampInstall(root) {
  writeFileSync(join(root, INSTALL_STAMP), lockHash(root));
}

/**
 * Whether node_modules holds what package-lock.json asks for although no setup of ours put it there: npm keeps a list of
 * what it installed (and writes it with --package-lock-only as well, so the folders are looked for). Packages of other
 * platforms are optional and may be absent.
 */
export function isInstalledByNpm(root) {
  const list = readText(join(root, "node_modules/.package-lock.json"));
  const lock = readText(join(root, "package-lock.json"));
  if (list === undefined || lock === undefined) return false;
  const installed = JSON.parse(list).packages;
  return Object.entries(JSON.parse(lock).packages).every(([path, wanted]) => {
    const found = installed[path];
    if (path === "" || (found === undefined && wanted.optional)) return true;
    if (found?.version !== wanted.version || found?.integrity !== wanted.integrity) return false;
    return existsSync(join(root, path, "package.json"));
  });
}

/** @param {string[]} inputs files below `root` that went into the bundles. */
export function buildStampText(root, inputs, missing) {
  const files = [...new Set([...inputs, ...BUILD_SCRIPTS])].sort();
  const hashes = Object.fromEntries(files.map((path) => [path, hash(readFileSync(join(root, path)))]));
  return `${JSON.stringify({ lock: lockHash(root), missing, inputs: hashes }, null, 2)}\n`;
}

/** A dist is replaced as a whole (replace-folder.mjs), so a stamp inside it means that the rest is there. */
export function isBuildCurrent(root) {
  const text = readText(join(root, "dist", BUILD_STAMP));
  if (text === undefined) return false;
  const { lock, missing, inputs } = JSON.parse(text);
  if (lock !== lockHash(root) || missing.length > 0) return false;
  return Object.entries(inputs).every(([path, expected]) => {
    const content = readText(join(root, path));
    return content !== undefined && hash(content) === expected;
  });
}

function lockHash(root) {
  return hash(readFileSync(join(root, "package-lock.json")));
}

function hash(content) {
  return createHash("sha256").update(content).digest("hex");
}

function readText(path) {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if (error.code === "ENOENT") return undefined;
    throw error;
  }
}

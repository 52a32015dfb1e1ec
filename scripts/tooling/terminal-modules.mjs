// Collects pty.node (and on macOS its spawn-helper) for every platform that a build host may have.
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";

/** As `${process.platform}-${process.arch}` says it on the host. */
export const PLATFORMS = ["darwin-arm64", "darwin-x64", "linux-arm64", "linux-x64"];

/** Longest wait for the registry; milliseconds. A person waits for "try", a release for "require". */
const FETCH_TIMEOUT_MS = { try: 20_000, require: 120_000 };

/**
 * @param {string} root folder with node_modules and package-lock.json.
 * @param {"never" | "try" | "require"} fetch whether packages of other platforms may be fetched, and must be there.
 * @returns {Promise<{files: {path: string, platform: string, mode: number, content: Uint8Array}[], missing: string[]}>}
 * @throws {Error} when a fetched package is not the one in package-lock.json, or one is missing and was required.
 */
export async function collectTerminalModules(root, fetch) {
  const packages = lockedPackages(root);
  const found = new Map();
  for (const entry of packages) {
    const files = installed(root, entry) ?? (await unpack(cached(root, entry)));
    if (files !== undefined) found.set(entry.platform, files);
  }
  const wanted = packages.filter(({ platform }) => !found.has(platform));
  if (wanted.length > 0 && fetch !== "never") {
    const problem = await fetchPackages(root, wanted, FETCH_TIMEOUT_MS[fetch]);
    if (problem !== undefined && fetch === "require") throw new Error(problem);
    for (const entry of wanted) {
      const files = await unpack(cached(root, entry));
      if (files !== undefined) found.set(entry.platform, files);
    }
  }
  return {
    files: [...found].flatMap(([platform, files]) =>
      files.map((file) => ({ ...file, path: `agent/pty/${platform}/${file.path}`, platform })),
    ),
    missing: PLATFORMS.filter((platform) => !found.has(platform)),
  };
}

/** Name, version and integrity of each platform's package, as package-lock.json fixes them. */
function lockedPackages(root) {
  const { packages } = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8"));
  return PLATFORMS.map((platform) => {
    const name = `@lydell/node-pty-${platform}`;
    const { version, integrity } = packages[`node_modules/${name}`];
    return { platform, name, version, integrity, archive: `lydell-node-pty-${platform}-${version}.tgz` };
  });
}

/** Names of the files of one platform's package that the agent needs, with their modes on the host. */
function wantedFiles(platform) {
  const terminal = { path: "pty.node", mode: 0o644 };
  return platform.startsWith("darwin") ? [terminal, { path: "spawn-helper", mode: 0o755 }] : [terminal];
}

function installed(root, { platform, name, version }) {
  const folder = join(root, "node_modules", name);
  const about = readIfThere(join(folder, "package.json"));
  if (about === undefined || JSON.parse(about.toString("utf8")).version !== version) return undefined;
  return wantedFiles(platform).map((file) => ({ ...file, content: readFileSync(join(folder, file.path)) }));
}

const cacheFolder = (root) => join(root, "node_modules", ".cache", "paseo-ssh-runtime");

/** The cached archive, if it is there and whole: it is checked at every use, so nobody has to trust the cache. */
function cached(root, entry) {
  const content = readIfThere(join(cacheFolder(root), entry.archive));
  return content !== undefined && integrityOf(content) === entry.integrity ? { ...entry, content } : undefined;
}

async function unpack(archive) {
  if (archive === undefined) return undefined;
  const { Parser } = await import("tar");
  const contents = new Map();
  await new Promise((resolve, reject) => {
    const parser = new Parser({
      strict: true,
      onReadEntry(entry) {
        const chunks = [];
        entry.on("data", (chunk) => chunks.push(chunk));
        entry.on("end", () => contents.set(entry.path, Buffer.concat(chunks)));
      },
    });
    parser.on("end", resolve);
    parser.on("error", reject);
    parser.end(archive.content);
  });
  return wantedFiles(archive.platform).map((file) => {
    const content = contents.get(`package/${file.path}`);
    if (content === undefined) throw new Error(`${archive.name}@${archive.version} has no ${file.path}.`);
    return { ...file, content };
  });
}

/** @returns {Promise<string | undefined>} why the packages could not be fetched. */
async function fetchPackages(root, wanted, timeoutMs) {
  const cache = cacheFolder(root);
  mkdirSync(cache, { recursive: true });
  const folder = mkdtempSync(join(cache, "fetch-"));
  try {
    const specifiers = wanted.map(({ name, version }) => `${name}@${version}`);
    const problem = await npmPack(specifiers, folder, timeoutMs);
    if (problem !== undefined) return problem;
    for (const entry of wanted) {
      const path = join(folder, entry.archive);
      const integrity = integrityOf(readFileSync(path));
      if (integrity !== entry.integrity) {
        throw new Error(
          `${entry.name}@${entry.version} has the integrity ${integrity}, but package-lock.json says ${entry.integrity}.`,
        );
      }
      renameSync(path, join(cache, entry.archive));
    }
    return undefined;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function npmPack(specifiers, folder, timeoutMs) {
  const options = ["--pack-destination", folder, "--ignore-scripts", "--fetch-retries=0", "--loglevel=error"];
  return new Promise((resolve) => {
    const npm = spawn("npm", ["pack", ...specifiers, ...options], {
      stdio: ["ignore", "ignore", "pipe"],
      timeout: timeoutMs,
    });
    let complaint = "";
    npm.stderr.setEncoding("utf8").on("data", (text) => {
      complaint = `${complaint}${text}`.slice(0, 2000);
    });
    npm.on("error", (error) => resolve(`npm cannot be started: ${error.message}`));
    npm.on("close", (code, signal) => {
      if (code === 0) return resolve(undefined);
      const firstLines = complaint.trim().split("\n").slice(0, 4).join("\n");
      const ending = signal === null ? `exit ${code}` : `stopped after ${timeoutMs / 1000} s`;
      resolve(`npm pack ${specifiers.join(" ")} failed (${ending}). ${firstLines}`);
    });
  });
}

function integrityOf(content) {
  return `sha512-${createHash("sha512").update(content).digest("base64")}`;
}

function readIfThere(path) {
  try {
    return readFileSync(path);
  } catch (error) {
    if (error.code === "ENOENT") return undefined;
    throw error;
  }
}

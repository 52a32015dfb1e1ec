// Makes a fresh clone ready: checks Node, installs the dependencies, builds dist. Does nothing when all is current.
//   --offline  do not fetch the terminal modules of other platforms
// Only built-in modules may be imported here: nothing is installed yet.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { withFolderLock } from "./tooling/folder-lock.mjs";
import { isBuildCurrent, isInstallCurrent, isInstalledByNpm, stampInstall } from "./tooling/freshness.mjs";

const MAX_LINES_OF_NPM = 10;
const root = resolve(dirname(fileURLToPath(import.meta.url)), "..");
const offline = process.argv.includes("--offline");

try {
  checkNode();
  if (!isInstallCurrent(root) || !isBuildCurrent(root)) {
    const onWait = (pid) => console.log(`waiting for another setup (process ${pid})`);
    await withFolderLock(join(root, ".setup-lock"), onWait, bringUpToDate);
  }
} catch (error) {
  console.error(`setup failed: ${error.message}`);
  process.exitCode = 1;
}

async function bringUpToDate() {
  const firstTime = !isInstallCurrent(root);
  if (firstTime) {
    if (!isInstalledByNpm(root)) await timed("dependencies installed", install);
    stampInstall(root);
  }
  if (isBuildCurrent(root)) return;
  // Other platforms' modules are tried for once per install: without a network every build would wait for them.
  const fetch = firstTime && !offline ? "try" : "never";
  await timed("dist built", async () => {
    const { buildDist, platformNote } = await import("./build.mjs");
    const { missingPlatforms } = await buildDist(root, { fetch });
    return platformNote(missingPlatforms);
  });
}

/** `engines` in package.json is the one place that says which Node is needed. */
function checkNode() {
  const { engines } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const [major, minor] = engines.node.replace(/^>=/, "").split(".").map(Number);
  const [ownMajor, ownMinor] = process.versions.node.split(".").map(Number);
  if (ownMajor > major || (ownMajor === major && ownMinor >= minor)) return;
  throw new Error(
    `Node ${major}.${minor} or newer is needed; this is Node ${process.versions.node} (${process.execPath}).`,
  );
}

/**
 * Runs npm ci, and shows what it said only when it failed. No dependency needs its install script (package.json lists
 * those that have one), and with --ignore-scripts an npm that does not read that list behaves the same.
 */
function install() {
  return new Promise((done, failed) => {
    const options = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
    const npm = spawn("npm", ["ci", ...options], { cwd: root, stdio: ["ignore", "pipe", "pipe"] });
    const said = [];
    npm.stdout.on("data", (chunk) => said.push(chunk));
    npm.stderr.on("data", (chunk) => said.push(chunk));
    npm.on("error", (error) => failed(new Error(`npm cannot be started: ${error.message}.`)));
    npm.on("close", (code, signal) => {
      if (code === 0) return done();
      // npm adds pages of usage to the few lines that tell the cause.
      const lines = Buffer.concat(said).toString("utf8").trim().split("\n").slice(0, MAX_LINES_OF_NPM);
      failed(new Error(`npm ci ended with ${signal ?? `exit ${code}`}.\n${lines.join("\n")}`));
    });
  });
}

/** Runs one step and prints one line about it, with what the step has to add. */
async function timed(what, step) {
  const start = performance.now();
  const note = await step();
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  console.log(`${what} in ${seconds} s${note ? ` (${note})` : ""}`);
}

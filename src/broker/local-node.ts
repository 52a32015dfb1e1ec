import { createHash } from "node:crypto";
import { createReadStream, readdirSync, type Stats, statSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import type { MissingNode } from "./missing-node.ts";

/** A node of this machine's that a host can be given. */
export interface LocalNode {
  path: string;
  size: number;
  sha256: string;
}

/** uname -s and -m in the words of process.platform and process.arch; others keep their own. */
const SYSTEMS: Record<string, string> = { Linux: "linux", Darwin: "darwin" };
const MACHINES: Record<string, string> = {
  x86_64: "x64",
  amd64: "x64",
  aarch64: "arm64",
  armv7l: "arm",
  ppc64le: "ppc64",
  i686: "ia32",
};

/** A host by what an official build of Node.js depends on, in the words of its file names: `linux-x64`. */
export function nodePlatform({ system, machine, libc }: Pick<MissingNode, "system" | "machine" | "libc">): string {
  const platform = `${SYSTEMS[system] ?? system.toLowerCase()}-${MACHINES[machine] ?? machine}`;
  return libc === "musl" ? `${platform}-musl` : platform;
}

/** Where the user puts builds of Node.js for hosts: `<platform>/node`, or an unpacked archive below `<platform>`. */
export function nodeCache(platform: string, home = homedir()): string {
  return join(home, ".cache", "paseo-ssh-runtime", "node", platform);
}

/**
 * The build that the user has put into the cache for this platform, else the node that runs this process when it fits.
 * @param home folder that holds the cache
 * @throws Error when the file cannot be read
 */
export async function findLocalNode(platform: string, home = homedir()): Promise<LocalNode | undefined> {
  const path = cachedNode(nodeCache(platform, home)) ?? (platform === ownPlatform() ? process.execPath : undefined);
  return path === undefined ? undefined : { path, size: statSync(path).size, sha256: await sha256Of(path) };
}

function cachedNode(folder: string): string | undefined {
  const archives = namesIn(folder).toSorted((a, b) => b.localeCompare(a, "en", { numeric: true }));
  const candidates = [join(folder, "node"), ...archives.map((name) => join(folder, name, "bin", "node"))];
  return candidates.find((path) => statSync(path, { throwIfNoEntry: false })?.isFile());
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => name);
  } catch {
    return [];
  }
}

/** process.report names the version of glibc, and nothing on musl (Node.js documentation, "Diagnostic report"). */
function ownPlatform(): string {
  const { header } = process.report.getReport() as unknown as { header: { glibcVersionRuntime?: string } };
  const musl = process.platform === "linux" && header.glibcVersionRuntime === undefined;
  return `${process.platform}-${process.arch}${musl ? "-musl" : ""}`;
}

/** Hashing 100 MB takes half a second, so it is remembered for as long as the file stays what it was. */
const hashes = new Map<string, { stamp: string; sha256: string }>();

async function sha256Of(path: string): Promise<string> {
  const stamp = stampOf(statSync(path));
  const known = hashes.get(path);
  if (known?.stamp === stamp) return known.sha256;
  const hash = createHash("sha256");
  await pipeline(createReadStream(path, { highWaterMark: 1024 * 1024 }), hash);
  const sha256 = hash.digest("hex");
  hashes.set(path, { stamp, sha256 });
  return sha256;
}

function stampOf({ dev, ino, size, mtimeMs, ctimeMs }: Stats): string {
  return [dev, ino, size, mtimeMs, ctimeMs].join(" ");
}

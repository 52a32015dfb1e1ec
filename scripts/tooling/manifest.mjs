// dist/agent/manifest.json: which files the broker puts on a host, and how it knows that they arrived whole.
import { createHash } from "node:crypto";

/** Hexadecimal digits of a build's name: 64 bits, enough to tell builds apart; each file has its whole hash. */
const BUILD_DIGITS = 16;

/**
 * A name for a set of files: the same for the same paths and contents, in any order and on any machine.
 * @param {{path: string, content: Uint8Array}[]} files
 */
export function buildName(files) {
  const hash = createHash("sha256");
  for (const { path, content } of sorted(files)) hash.update(`${path}\0${sha256(content)}\n`);
  return hash.digest("hex").slice(0, BUILD_DIGITS);
}

/**
 * @param {{path: string, content: Uint8Array, mode?: number, platform?: string}[]} files paths below agent/.
 * @returns {string} JSON with `build` and `files` (sorted by path; mode as a number, size in bytes).
 */
export function manifestText(files) {
  const entries = sorted(files).map(({ path, content, mode = 0o644, platform }) => ({
    path,
    sha256: sha256(content),
    size: content.length,
    mode,
    ...(platform === undefined ? {} : { platform }),
  }));
  return `${JSON.stringify({ build: buildName(files), files: entries }, null, 2)}\n`;
}

function sorted(files) {
  return files.toSorted((a, b) => (a.path < b.path ? -1 : 1));
}

function sha256(content) {
  return createHash("sha256").update(content).digest("hex");
}

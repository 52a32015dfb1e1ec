// Replaces a folder as a whole, so that nobody sees it half written.
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";

/** Two builds at once take turns after a few tries; each try is two renames. */
const ATTEMPTS = 20;

/**
 * @param {string} folder the folder to replace; it need not exist.
 * @param {{path: string, content: Uint8Array | string, mode?: number}[]} files all that will be in it.
 * @returns {boolean} false when the folder held exactly these files and was left alone.
 */
export function replaceFolder(folder, files) {
  if (holdsExactly(folder, files)) return false;
  const next = `${folder}.tmp-${process.pid}`;
  const previous = `${folder}.old-${process.pid}`;
  try {
    rmSync(next, { recursive: true, force: true });
    for (const { path, content, mode = 0o644 } of files) {
      mkdirSync(dirname(join(next, path)), { recursive: true });
      writeFileSync(join(next, path), content, { mode });
    }
    swap(folder, next, previous);
  } finally {
    rmSync(next, { recursive: true, force: true });
    rmSync(previous, { recursive: true, force: true });
  }
  return true;
}

function swap(folder, next, previous) {
  for (let attempt = 1; ; attempt++) {
    try {
      rmSync(previous, { recursive: true, force: true });
      moveAway(folder, previous);
      renameSync(next, folder);
      return;
    } catch (error) {
      // Somebody else's folder arrived between the two renames.
      if (!["ENOTEMPTY", "EEXIST"].includes(error.code) || attempt === ATTEMPTS) throw error;
    }
  }
}

function moveAway(folder, previous) {
  try {
    renameSync(folder, previous);
  } catch (error) {
    if (error.code !== "ENOENT") throw error;
  }
}

function holdsExactly(folder, files) {
  try {
    const present = readdirSync(folder, { withFileTypes: true, recursive: true })
      .filter((entry) => entry.isFile())
      .map((entry) => relative(folder, join(entry.parentPath, entry.name)));
    return (
      present.length === files.length &&
      files.every(({ path, content }) => readFileSync(join(folder, path)).equals(Buffer.from(content)))
    );
  } catch (error) {
    if (error.code === "ENOENT") return false;
    throw error;
  }
}

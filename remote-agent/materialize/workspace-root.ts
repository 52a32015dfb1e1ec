import { lstat, realpath, stat, writeFile } from "node:fs/promises";
import { join, sep } from "node:path";
import { RuntimeError } from "../../src/wire/errors.ts";

/**
 * The workspace root inside the content: the source's folder, then the placement's. Equal ones count once, because
 * Paseo derives both from the same path.
 *
 * @returns the path relative to the content, empty for the content itself
 * @throws RuntimeError cwd-outside-workspace for a path that leads out, subdirectory-missing when there is no such folder
 */
export async function resolveRoot(
  contentPath: string,
  subdirectory: string | undefined,
  relativeCwd: string | undefined,
): Promise<string> {
  const below = normalized(subdirectory);
  const further = normalized(relativeCwd);
  const root = [below, below === further ? "" : further].filter((part) => part !== "").join("/");
  const content = await realpath(contentPath);
  const place = await realpath(join(content, root)).catch(() => undefined);
  if (place === undefined || !(await stat(place)).isDirectory()) {
    throw new RuntimeError("subdirectory-missing", `The source has no folder ${JSON.stringify(root)}`);
  }
  if (place !== content && !place.startsWith(content + sep)) throw outside(root);
  return root;
}

function normalized(path: string | undefined): string {
  const text = path ?? "";
  const parts = text.split("/").filter((part) => part !== "" && part !== ".");
  if (text.startsWith("/") || parts.includes("..") || text.includes("\0")) throw outside(text);
  return parts.join("/");
}

function outside(path: string): RuntimeError {
  return new RuntimeError("cwd-outside-workspace", `${JSON.stringify(path)} leads out of the workspace`);
}

/** A workspace root without `paseo.json` gets the one that belongs to the project. */
export async function seedPaseoConfig(contentPath: string, root: string, text: string): Promise<void> {
  const path = join(contentPath, root, "paseo.json");
  // A dangling link counts as there: writing through it would create a file elsewhere.
  if (await lstat(path).catch(() => undefined)) return;
  await writeFile(path, text, { flag: "wx" });
}

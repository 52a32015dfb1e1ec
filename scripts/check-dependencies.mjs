// Holds the dependency directions of docs/architecture.md: a file may import only from the folders that stand beside its own below.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "..");

/** folder → folders that it may import from (its own is always allowed). */
const ALLOWED = {
  "src/contract": ["src/wire/errors.ts"],
  "src/wire": [],
  "src/workspace": ["src/wire", "src/contract"],
  "src/ssh": ["src/wire", "src/contract"],
  "src/broker": ["src/ssh", "src/workspace", "src/wire", "src/contract"],
  "src/wrapper": ["src/ssh", "src/workspace", "src/wire", "src/contract"],
  "src/cli": ["src/wrapper", "src/broker", "src/ssh", "src/workspace", "src/wire", "src/contract"],
  "remote-agent": ["src/wire", "src/contract"],
};

const problems = [];
for (const [folder, allowed] of Object.entries(ALLOWED)) {
  for (const file of filesBelow(join(root, folder))) {
    const text = readFileSync(file, "utf8");
    for (const [, specifier] of text.matchAll(/\b(?:from|import)\s*\(?\s*["'](\.[^"']+)["']/g)) {
      const target = relative(root, resolve(dirname(file), specifier));
      const ok = [folder, ...allowed].some((entry) => target === entry || target.startsWith(`${entry}/`));
      if (!ok) problems.push(`${relative(root, file)} imports ${target}; ${folder} may import from: ${allowed.join(", ") || "itself only"}`);
    }
  }
}
if (problems.length > 0) {
  console.error(problems.join("\n"));
  process.exit(1);
}

function filesBelow(folder) {
  return readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(".ts"))
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name));
}

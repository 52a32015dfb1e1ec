// Holds the dependency directions of docs/architecture.md: a file may import only from the folders that stand beside
// its own below, and only those packages. `node scripts/check-dependencies.mjs [ROOT]`
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = resolve(process.argv[2] ?? join(dirname(fileURLToPath(import.meta.url)), ".."));

/** folder → folders or files that it may import from (its own is always allowed), and packages. */
const ALLOWED = {
  "src/contract": { folders: ["src/wire/errors.ts"], packages: ["zod"] },
  "src/wire": { folders: ["src/contract"], packages: ["zod"] },
  "src/workspace": { folders: ["src/wire", "src/contract"], packages: ["tar", "zod"] },
  "src/ssh": { folders: ["src/wire", "src/contract"], packages: ["keytar", "p-queue", "ssh-config", "ssh2", "zod"] },
  "src/broker": {
    folders: ["src/ssh", "src/workspace", "src/wire", "src/contract"],
    packages: ["p-queue", "ssh2", "zod"],
  },
  "src/wrapper": { folders: ["src/ssh", "src/workspace", "src/wire", "src/contract"], packages: ["zod"] },
  "src/cli": {
    folders: ["src/wrapper", "src/broker", "src/ssh", "src/workspace", "src/wire", "src/contract"],
    packages: ["commander", "ssh2", "zod"],
  },
  "remote-agent": { folders: ["src/wire", "src/contract"], packages: ["tar", "zod"] },
};

/** Every form that names a module by a literal; a statement starts its line, which keeps sentences in strings out. */
const IMPORTS = [
  /^(?:import|export)\s[^"'`;=(]*?\bfrom\s*["']([^"']+)["']/gm,
  /^import\s*["']([^"']+)["']/gm,
  /\b(?:import|require)\(\s*["']([^"']+)["']/g,
];

const problems = [...unlistedFolders()];
for (const [folder, allowed] of Object.entries(ALLOWED)) {
  if (!existsSync(join(root, folder))) problems.push(`${folder} has rules here but does not exist`);
  else for (const file of sourcesBelow(join(root, folder))) problems.push(...violations(folder, allowed, file));
}
if (problems.length > 0) {
  console.error(problems.join("\n"));
  process.exitCode = 1;
}

function unlistedFolders() {
  return readdirSync(join(root, "src"))
    .map((name) => `src/${name}`)
    .filter((folder) => !(folder in ALLOWED))
    .map((folder) => `${folder} has no rules here`);
}

function violations(folder, { folders, packages }, file) {
  const found = [];
  for (const specifier of importsOf(readFileSync(file, "utf8"))) {
    const place = `${relative(root, file)} imports`;
    if (specifier.startsWith(".")) {
      const target = relative(root, resolve(dirname(file), specifier));
      if ([folder, ...folders].some((entry) => target === entry || target.startsWith(`${entry}/`))) continue;
      found.push(`${place} ${target}; ${folder} may import from: ${folders.join(", ") || "itself only"}`);
    } else if (!specifier.startsWith("node:") && !builtinModules.includes(specifier)) {
      const name = /^(?:@[^/]+\/)?[^/]+/.exec(specifier)?.[0] ?? specifier;
      if (!packages.includes(name)) found.push(`${place} ${specifier}; packages of ${folder}: ${packages.join(", ")}`);
    }
  }
  return found;
}

function importsOf(text) {
  return IMPORTS.flatMap((form) => [...text.matchAll(form)].map(([, specifier]) => specifier));
}

function sourcesBelow(folder) {
  return readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(".ts"))
    .map((entry) => join(entry.parentPath, entry.name));
}

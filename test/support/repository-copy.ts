import { type ExecFileException, execFile } from "node:child_process";
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join, resolve } from "node:path";
import { test as base } from "vitest";

/** This repository's root. */
export const REPOSITORY = resolve(import.meta.dirname, "../..");

/** What a build makes from what; each entry is a program that prints `ran`, until a test writes another. */
export const { BUNDLES }: { BUNDLES: { entry: string; output: string }[] } = await import(
  join(REPOSITORY, "scripts/tooling/bundles.mjs")
);

export interface ScriptResult {
  code: number;
  stdout: string;
  stderr: string;
}

/**
 * A small repository with our scripts and the installed packages, but tiny sources of the test's own, so that a test can
 * break what it likes. Its `npm` is a stand-in: it notes its arguments and installs what is there already.
 */
export class RepositoryCopy {
  readonly root = mkdtempSync(join(tmpdir(), "repository-"));
  readonly #programs = join(this.root, "programs");

  constructor() {
    for (const path of ["scripts", "bin", "package.json", "package-lock.json"]) {
      cpSync(join(REPOSITORY, path), join(this.root, path), { recursive: true });
    }
    this.linkPackages();
    for (const { entry } of BUNDLES) this.write(entry, 'console.log("ran");\n');
    this.write("programs/npm", NPM);
    chmodSync(join(this.#programs, "npm"), 0o755);
  }

  /** node_modules is a folder of its own, so that stamps and caches of the copy stay in the copy. */
  linkPackages(): void {
    const installed = join(REPOSITORY, "node_modules");
    mkdirSync(join(this.root, "node_modules"), { recursive: true });
    for (const name of readdirSync(installed)) {
      if (name === ".cache" || name === ".paseo-setup") continue;
      symlinkSync(join(installed, name), join(this.root, "node_modules", name));
    }
  }

  write(path: string, text: string): void {
    mkdirSync(dirname(join(this.root, path)), { recursive: true });
    writeFileSync(join(this.root, path), text);
  }

  read(path: string): string {
    return readFileSync(join(this.root, path), "utf8");
  }

  /** Command lines that the stand-in npm was called with. */
  npmCalls(): string[] {
    return readdirSync(this.root).includes("npm-calls") ? this.read("npm-calls").trim().split("\n") : [];
  }

  /** Runs one of the copied scripts to its end. */
  run(script: string, ...args: string[]): Promise<ScriptResult> {
    return runNode([join(this.root, script), ...args], {
      ...process.env,
      PATH: `${this.#programs}${delimiter}${process.env.PATH}`,
      COPY_ROOT: this.root,
      COPY_PACKAGES: join(REPOSITORY, "node_modules"),
    });
  }

  remove(): void {
    rmSync(this.root, { recursive: true, force: true });
  }
}

/** `test` with a `copy` of its own for every test. */
// biome-ignore lint/correctness/noEmptyPattern: vitest wants a pattern here, to see on which fixtures this one depends
export const test = base.extend("copy", ({}, { onCleanup }): RepositoryCopy => {
  const copy = new RepositoryCopy();
  onCleanup(() => copy.remove());
  return copy;
});

/** Runs Node to its end, whatever its exit code. */
export function runNode(args: string[], env: NodeJS.ProcessEnv = process.env): Promise<ScriptResult> {
  return new Promise((done) => {
    execFile(process.execPath, args, { env }, (error: ExecFileException | null, stdout, stderr) => {
      done({ code: error === null ? 0 : Number(error.code ?? -1), stdout, stderr });
    });
  });
}

const NPM = `#!/bin/sh
echo "$*" >> "$COPY_ROOT/npm-calls"
[ "$1" = ci ] || exit 1
rm -rf "$COPY_ROOT/node_modules"
mkdir "$COPY_ROOT/node_modules"
for package in "$COPY_PACKAGES"/* "$COPY_PACKAGES"/.package-lock.json; do ln -s "$package" "$COPY_ROOT/node_modules/"; done
`;

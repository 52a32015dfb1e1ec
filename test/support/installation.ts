import { cpSync, mkdirSync, readFileSync, symlinkSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { LAUNCHER } from "./runtime.ts";

const BUILT = resolve(dirname(LAUNCHER), "..");

export interface Installation {
  launcher: string;
  dist: string;
  /** The folder that holds this package and those that it needs. */
  modules: string;
}

/** The built package as npm installs it, for tests that change something in it or beside it. */
export function installCopy(folder: string): Installation {
  const modules = join(folder, "node_modules");
  const own = join(modules, "paseo-ssh-runtime");
  mkdirSync(own, { recursive: true });
  for (const part of ["bin", "dist", "package.json"]) cpSync(join(BUILT, part), join(own, part), { recursive: true });
  const { dependencies } = JSON.parse(readFileSync(join(own, "package.json"), "utf8"));
  for (const name of Object.keys(dependencies)) symlinkSync(join(BUILT, "node_modules", name), join(modules, name));
  return { launcher: join(own, "bin", "paseo-ssh-runtime.cjs"), dist: join(own, "dist"), modules };
}

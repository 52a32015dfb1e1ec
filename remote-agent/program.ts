import { accessSync, constants, realpathSync, statSync } from "node:fs";
import { isAbsolute, join, relative, resolve } from "node:path";
import { RuntimeError } from "../src/wire/errors.ts";

/**
 * Finds what argv[0] names, as execvp(3) does, but before anything is started: a program that is missing must be an
 * error of the operation and not an exit status.
 * @param path the PATH to search when the name has no slash
 * @throws RuntimeError program-not-found, program-not-executable
 */
export function findProgram(name: string, cwd: string, path: string): string {
  if (name === "") throw notFound(name, "argv[0] is empty");
  const candidates = name.includes("/")
    ? [resolve(cwd, name)]
    : path.split(":").map((folder) => resolve(cwd, folder, name));
  let refused: string | undefined;
  for (const candidate of candidates) {
    try {
      if (!statSync(candidate).isFile()) continue;
    } catch {
      continue;
    }
    try {
      accessSync(candidate, constants.X_OK);
      return candidate;
    } catch {
      refused ??= candidate;
    }
  }
  if (refused !== undefined) {
    throw new RuntimeError(
      "program-not-executable",
      `The program ${refused} is not executable on the build host`,
      "Run chmod +x on it",
    );
  }
  throw notFound(name, name.includes("/") ? "no such file" : `not found on the PATH ${path}`);
}

function notFound(name: string, reason: string): RuntimeError {
  return new RuntimeError(
    "program-not-found",
    `The program ${JSON.stringify(name)} was not found on the build host (${reason})`,
    "Install it there, or add its folder to the option path",
  );
}

/**
 * Resolves a working folder inside a workspace, after symbolic links.
 * @param root absolute path of the workspace root
 * @throws RuntimeError cwd-outside-workspace, cwd-missing
 */
export function resolveCwd(root: string, cwd: string | undefined): string {
  if (cwd === undefined || cwd === "") return root;
  const outside = (why: string) =>
    new RuntimeError(
      "cwd-outside-workspace",
      `The working folder ${JSON.stringify(cwd)} ${why}`,
      "Use a path below the workspace root",
    );
  if (cwd.includes("\0")) throw outside("contains a NUL byte");
  if (isAbsolute(cwd)) throw outside("is absolute");
  if (cwd.split("/").includes("..")) throw outside("contains ..");
  const realRoot = realpathSync(root);
  let real: string;
  try {
    real = realpathSync(join(realRoot, cwd));
    if (!statSync(real).isDirectory()) throw new Error("not a folder");
  } catch (error) {
    const what = (error as Error).message === "not a folder" ? "is not a folder" : "does not exist";
    throw new RuntimeError(
      "cwd-missing",
      `The working folder ${JSON.stringify(cwd)} ${what} in the workspace`,
      "Create it first",
    );
  }
  const inside = relative(realRoot, real);
  if (inside === ".." || inside.startsWith("../") || isAbsolute(inside)) throw outside("leads out of the workspace");
  return real;
}

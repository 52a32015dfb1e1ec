import { closeSync, createReadStream, openSync, readFileSync, readSync, realpathSync, statSync } from "node:fs";
import { dirname, extname, join } from "node:path";
import type { WrapperOptions } from "../ssh/accept-options.ts";
import { RuntimeError } from "../wire/errors.ts";
import type { EnvironmentOptions, HelperIdentity } from "../wire/from-client.ts";
import { runtimeFolder } from "../wire/runtime-folder.ts";
import type { Suppliers } from "./call.ts";
import { HashCache } from "./hash-cache.ts";

/** Finds the `paseo-workspace-helper` that goes to the host. */

const HELPER_PACKAGE = "@getpaseo/workspace-helper";
const HELPER_COMMAND = "paseo-workspace-helper";

export interface LocalHelper {
  path: string;
  identity: HelperIdentity;
}

/** What shapes the environment of a workspace, as requests carry it. */
export function workspaceShape(
  options: WrapperOptions,
  helper: LocalHelper | undefined,
): { environment: EnvironmentOptions; helper?: HelperIdentity } {
  return {
    environment: {
      path: options.path ?? [],
      env: options.env ?? {},
      ...(options.forwardAgent === true ? { forwardAgent: true } : {}),
    },
    ...(helper === undefined ? {} : { helper: helper.identity }),
  };
}

/**
 * @returns undefined when the options say false, or say nothing and the package is not installed
 * @throws RuntimeError helper-not-found when the options name a file that cannot be read
 */
export function findHelper(options: WrapperOptions): LocalHelper | undefined {
  if (options.helper === false) return undefined;
  const path = options.helper === undefined ? findInPackage() : expandHome(options.helper);
  if (path === undefined) return undefined;
  try {
    return describeHelper(realpathSync(path));
  } catch (error) {
    throw new RuntimeError(
      "helper-not-found",
      `The workspace helper ${path} cannot be used (${(error as Error).message})`,
      "Correct the option helper: it is the path of the helper's executable on this machine",
    );
  }
}

/** @throws RuntimeError helper-not-found */
export function requireHelper(options: WrapperOptions): LocalHelper | undefined {
  const helper = findHelper(options);
  if (helper !== undefined || options.helper === false) return helper;
  throw new RuntimeError(
    "helper-not-found",
    `No workspace helper was found: the package ${HELPER_PACKAGE} is not installed beside this runtime`,
    "Install it, or name its executable with the option helper",
  );
}

export function supplyHelper(helper: LocalHelper | undefined): Suppliers {
  if (helper === undefined) return {};
  return {
    helper: () => Promise.resolve({ supply: { what: "helper" as const }, stream: createReadStream(helper.path) }),
  };
}

function describeHelper(path: string): LocalHelper {
  const stats = statSync(path);
  if (!stats.isFile()) throw new Error("it is not a file");
  const script = isNodeScript(path);
  return {
    path,
    identity: {
      sha256: new HashCache(join(runtimeFolder(process.env), "helper-hash.json")).sha256(path, stats),
      size: stats.size,
      fileName: `${HELPER_COMMAND}${script ? moduleExtension(path) : ""}`,
      interpreter: script ? "node" : "none",
    },
  };
}

/** A script for node is started by the host's node, wherever that is; anything else is started by itself. */
function isNodeScript(path: string): boolean {
  if (/\.[cm]?js$/.test(path)) return true;
  const head = Buffer.alloc(256);
  const fd = openSync(path, "r");
  try {
    const length = readSync(fd, head, 0, head.length, 0);
    return /^#!.*\bnode\b/.test(head.toString("latin1", 0, length));
  } finally {
    closeSync(fd);
  }
}

/** Alone on the host, a file's name has to say what its package.json says here: CommonJS or ES module. */
function moduleExtension(path: string): string {
  const extension = extname(path);
  if (extension === ".mjs" || extension === ".cjs") return extension;
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    try {
      const { type } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
      return type === "module" ? ".mjs" : ".cjs";
    } catch {
      // No package.json here; node looks further up as well.
    }
    if (folder === dirname(folder)) return ".cjs";
  }
}

function findInPackage(): string | undefined {
  // Not by resolving its package.json, which a package with `exports` may hide.
  const { createRequire } = process.getBuiltinModule("node:module");
  for (const modules of createRequire(__filename).resolve.paths(HELPER_PACKAGE) ?? []) {
    const folder = join(modules, HELPER_PACKAGE);
    try {
      const { bin } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
      const relative = typeof bin === "string" ? bin : bin?.[HELPER_COMMAND];
      return typeof relative === "string" ? join(folder, relative) : undefined;
    } catch {
      // It is not here; node looks further up as well.
    }
  }
  return undefined;
}

function expandHome(path: string): string {
  return path.startsWith("~/") ? join(process.env.HOME ?? "", path.slice(2)) : path;
}

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { WorkTree } from "./work-tree.ts";

/**
 * A private folder in which git puts everything that it writes while a source is read: new objects and copies of the
 * index. Git reads the source's own objects through it, so the source's repository stays bit for bit untouched.
 */
export class Scratch {
  readonly folder = mkdtempSync(join(tmpdir(), "paseo-ssh-runtime-source-"));
  /** Environment for git in which objects are written here. */
  readonly env: Readonly<Record<string, string>>;

  constructor(tree: WorkTree) {
    const objects = join(this.folder, "objects");
    mkdirSync(objects);
    this.env = {
      GIT_OBJECT_DIRECTORY: objects,
      // Quoted, for an unquoted list is split at colons (git's documentation, "Git Alternates Environment").
      GIT_ALTERNATE_OBJECT_DIRECTORIES: `"${tree.objectFolder.replace(/["\\]/g, "\\$&")}"`,
    };
  }

  envWithIndex(name: string): Record<string, string> {
    return { ...this.env, GIT_INDEX_FILE: this.path(name) };
  }

  path(name: string): string {
    return join(this.folder, name);
  }

  /** Synchronous, so that nothing is left when the process ends right after. */
  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { git, runGit } from "../../wire/git-process.ts";

/** A git work tree that the demo may do with as it likes. */
export interface DemoSource {
  path: string;
  /** What it is, for a person. */
  description: string;
  /** A file in it that git has never seen. */
  uncommitted: { name: string; content: string };
}

const UNCOMMITTED = {
  name: "not-committed-yet.txt",
  content: "This file was never committed, and travelled all the same.\n",
};

/**
 * Makes a clone of this repository's own work tree, so that nobody's files are touched. Where this program is not in its
 * own repository (npm installs it without one), a small repository is made instead.
 *
 * @param root folder of package.json
 * @param path where to make it
 * @throws RuntimeError git-missing, git-failed
 */
export async function makeSource(root: string, path: string, signal: AbortSignal): Promise<DemoSource> {
  const isRepository = await isTopOfWorkTree(root, signal);
  if (isRepository) {
    const args = ["clone", "--quiet", "--local", "--", root, path];
    await git(args, { cwd: "/", signal, doing: `clone ${root}` });
  } else {
    await makeRepository(path, signal);
  }
  writeFileSync(join(path, UNCOMMITTED.name), UNCOMMITTED.content);
  return {
    path,
    description: isRepository ? `a clone of ${root}` : "a small git repository, made just now",
    uncommitted: UNCOMMITTED,
  };
}

/** A package inside somebody's node_modules lies in a work tree too, but in another one. An unborn branch has nothing to clone. */
async function isTopOfWorkTree(folder: string, signal: AbortSignal): Promise<boolean> {
  const found = await runGit(["rev-parse", "--show-prefix", "--verify", "HEAD"], { cwd: folder, signal });
  return found.exitCode === 0 && found.stdout.toString("utf8").startsWith("\n");
}

async function makeRepository(path: string, signal: AbortSignal): Promise<void> {
  mkdirSync(path);
  const options = { cwd: path, signal, doing: "make a repository" };
  await git(["init", "--quiet"], options);
  writeFileSync(join(path, "README.md"), "# A small repository\n");
  writeFileSync(join(path, "hello.sh"), "#!/bin/sh\necho hello\n", { mode: 0o755 });
  await git(["add", "."], options);
  const identity = ["-c", "user.name=demo", "-c", "user.email=demo@localhost", "-c", "commit.gpgSign=false"];
  await git([...identity, "commit", "--quiet", "--message", "A beginning"], options);
}

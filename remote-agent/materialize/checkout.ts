import { mkdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Checkout } from "./placement.ts";
import type { Repository } from "./repository.ts";

/** Brings a workspace that has its objects and refs, but no files yet, to what was planned. */
export async function applyCheckout(
  workspace: Repository,
  checkout: Checkout,
  progress: (text: string) => void,
): Promise<void> {
  await setHead(workspace, checkout);
  await configureBranch(workspace, checkout);
  progress(`Checking out ${checkout.branch ?? checkout.commit?.slice(0, 12) ?? "an empty repository"}…`);
  if (checkout.state) await reproduceState(workspace, checkout.state);
  else if (checkout.commit !== undefined) await writeFiles(workspace, checkout.commit);
  await writeMetadata(workspace, checkout);
}

async function setHead(workspace: Repository, { branch, commit }: Checkout): Promise<void> {
  if (branch !== undefined) {
    if (commit !== undefined)
      await workspace.git(`make the branch ${branch}`, ["update-ref", `refs/heads/${branch}`, commit]);
    await workspace.git(`switch to ${branch}`, ["symbolic-ref", "HEAD", `refs/heads/${branch}`]);
  } else if (commit !== undefined) {
    await workspace.git(`switch to ${commit}`, ["update-ref", "--no-deref", "HEAD", commit]);
  }
}

async function configureBranch(
  workspace: Repository,
  { branch, commit, upstream, pushRemote }: Checkout,
): Promise<void> {
  if (branch === undefined) return;
  if (pushRemote && commit !== undefined) {
    const tracking = `refs/remotes/${pushRemote.name}/${pushRemote.branch}`;
    await workspace.configure({
      [`remote.${pushRemote.name}.url`]: pushRemote.url,
      [`remote.${pushRemote.name}.push`]: `HEAD:refs/heads/${pushRemote.branch}`,
      [`remote.${pushRemote.name}.fetch`]: `+refs/heads/${pushRemote.branch}:${tracking}`,
      [`branch.${branch}.pushRemote`]: pushRemote.name,
    });
    // What was checked out is the head of that branch, so its upstream is known without asking the remote.
    await workspace.git(`track ${pushRemote.name}`, ["update-ref", tracking, commit]);
  }
  if (upstream) {
    await workspace.configure({
      [`branch.${branch}.remote`]: upstream.remote,
      [`branch.${branch}.merge`]: `refs/heads/${upstream.branch}`,
    });
  }
}

/** Index and files of a commit or tree. Not `git checkout`, which runs hooks and refuses to leave what it does not know. */
async function writeFiles(workspace: Repository, treeish: string): Promise<void> {
  await workspace.git("write the files", ["read-tree", "--reset", "-u", treeish]);
}

/**
 * The files first, then the index as it was staged; what both have in common keeps the file times that git compares,
 * so that the first `git status` need not read every file.
 */
async function reproduceState(workspace: Repository, state: NonNullable<Checkout["state"]>): Promise<void> {
  await writeFiles(workspace, state.workTree);
  if (state.index !== state.workTree)
    await workspace.git("stage what was staged", ["read-tree", "--reset", state.index]);
  if (state.intentToAdd.length === 0) return;
  const paths = state.intentToAdd.flatMap((path) => [Buffer.from(path, "base64"), Buffer.from([0])]);
  await workspace.git(
    "stage what was to be added",
    ["add", "--intent-to-add", "--force", "--pathspec-from-file=-", "--pathspec-file-nul"],
    {
      input: Buffer.concat(paths),
      env: { GIT_LITERAL_PATHSPECS: "1" },
    },
  );
}

/** Where Paseo looks for what a workspace was based on (Paseo's worktree metadata, versions 1 and 2). */
async function writeMetadata(workspace: Repository, { baseRefName, isPlaceholder, branch }: Checkout): Promise<void> {
  if (baseRefName === undefined) return;
  const metadata = isPlaceholder
    ? { version: 2, baseRefName, firstAgentBranchAutoName: { status: "pending", placeholderBranchName: branch } }
    : { version: 1, baseRefName };
  const folder = join(workspace.gitFolder, "paseo");
  await mkdir(folder, { recursive: true });
  const temporary = join(folder, "worktree.json.new");
  await writeFile(temporary, `${JSON.stringify(metadata, null, 2)}\n`);
  await rename(temporary, join(folder, "worktree.json"));
}

/*
 * Reading `git status`, for both sides: the wrapper's to know what to send, the host's to know what has changed since.
 * Paths are byte strings (latin1), because a path in git need not be valid UTF-8.
 */

/** Everything that differs from HEAD or from the index, one NUL-terminated record each; renames stay two records. */
export const GIT_STATUS_ARGUMENTS: readonly string[] = [
  "status",
  "--porcelain=v2",
  "-z",
  "--untracked-files=all",
  "--no-renames",
];

export interface StatusEntry {
  /** Path relative to the top of the work tree, one character per byte. */
  path: string;
  /** The file differs from the index or is not in it. */
  inWorkTree: boolean;
  untracked: boolean;
  unmerged: boolean;
  intentToAdd: boolean;
}

/** Fields before the path: type, XY, submodule, modes and ids. https://git-scm.com/docs/git-status, porcelain format v2 */
const FIELDS_BEFORE_PATH = { "1": 8, u: 10 } as const;

export function parseStatus(output: Buffer): StatusEntry[] {
  const entries: StatusEntry[] = [];
  for (const record of output.toString("latin1").split("\0")) {
    const type = record[0];
    if (type === "?") {
      entries.push({ path: record.slice(2), inWorkTree: true, untracked: true, unmerged: false, intentToAdd: false });
    } else if (type === "1" || type === "u") {
      const workTreeState = record[3];
      entries.push({
        path: afterFields(record, FIELDS_BEFORE_PATH[type]),
        inWorkTree: type === "u" || workTreeState !== ".",
        untracked: false,
        unmerged: type === "u",
        intentToAdd: type === "1" && workTreeState === "A",
      });
    }
  }
  return entries;
}

function afterFields(record: string, fields: number): string {
  let at = 0;
  for (let field = 0; field < fields; field += 1) at = record.indexOf(" ", at) + 1;
  return record.slice(at);
}

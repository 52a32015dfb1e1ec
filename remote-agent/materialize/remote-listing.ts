import { RuntimeError } from "../../src/wire/errors.ts";
import { type GitOptions, runGit } from "../../src/wire/git-process.ts";
import { type GitAccess, waysOfAccess } from "./git-access.ts";
import type { GitUrl } from "./git-url.ts";

/** What a remote has to offer, as it said itself. */
export interface RemoteListing {
  /** All refs by name. */
  refs: Map<string, string>;
  /** The branch that its HEAD stands for. */
  defaultBranch: string | undefined;
  /** Commit of its HEAD. */
  head: string | undefined;
  /** How it was reached; what follows uses the same way. */
  access: GitAccess;
}

/**
 * Asks a remote for its refs.
 * @throws RuntimeError git-source-unreachable, naming the URL without credentials
 */
export async function listRemote(source: GitUrl, options: GitOptions): Promise<RemoteListing> {
  let reason = "";
  for (const access of await waysOfAccess(source.credentials, options)) {
    const result = await runGit([...access.config, "ls-remote", "--symref", "--quiet", "--", source.url], {
      ...options,
      env: access.env,
      secretInput: access.secretInput,
    });
    if (result.exitCode === 0) return { ...parseListing(result.stdout.toString("utf8")), access };
    reason = access.reason(result);
  }
  throw unreachable(source.url, reason);
}

export function unreachable(url: string, reason: string): RuntimeError {
  return new RuntimeError(
    "git-source-unreachable",
    `The git source ${url} cannot be read from the host: ${reason}`,
    "Check the URL, and that the account on the host may read it without being asked for a password",
  );
}

function parseListing(text: string): Omit<RemoteListing, "access"> {
  const refs = new Map<string, string>();
  let defaultBranch: string | undefined;
  let head: string | undefined;
  for (const line of text.split("\n")) {
    const [value = "", name = ""] = line.split("\t");
    if (name === "HEAD" && value.startsWith("ref: ")) {
      const target = value.slice("ref: ".length);
      if (target.startsWith("refs/heads/")) defaultBranch = target.slice("refs/heads/".length);
    } else if (name === "HEAD") {
      head = value;
    } else if (name.startsWith("refs/") && !name.endsWith("^{}")) {
      refs.set(name, value);
    }
  }
  return { refs, defaultBranch, head };
}

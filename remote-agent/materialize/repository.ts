import { type GitOptions, type GitResult, git, runGit } from "../../src/wire/git-process.ts";

/**
 * One repository on the host, always addressed by its own path: discovery by working directory can be forbidden for
 * bare repositories (`safe.bareRepository`).
 */
export class Repository {
  readonly gitFolder: string;
  readonly workTree: string | undefined;
  readonly signal: AbortSignal;

  constructor(gitFolder: string, workTree: string | undefined, signal: AbortSignal) {
    this.gitFolder = gitFolder;
    this.workTree = workTree;
    this.signal = signal;
  }

  get options(): GitOptions {
    return { cwd: this.workTree ?? this.gitFolder, signal: this.signal };
  }

  #arguments(args: readonly string[]): string[] {
    return [
      `--git-dir=${this.gitFolder}`,
      ...(this.workTree === undefined ? [] : [`--work-tree=${this.workTree}`]),
      ...args,
    ];
  }

  /** Any exit code is a result. @throws RuntimeError cancelled, git-missing */
  run(args: readonly string[], options: Partial<GitOptions> = {}): Promise<GitResult> {
    return runGit(this.#arguments(args), { ...this.options, ...options });
  }

  /** @throws RuntimeError git-failed when git does */
  git(doing: string, args: readonly string[], options: Partial<GitOptions> = {}): Promise<string> {
    return git(this.#arguments(args), { ...this.options, ...options, doing });
  }

  /** The id that a revision names, or undefined. The caller has made sure that it is no option. */
  async idOf(revision: string): Promise<string | undefined> {
    const result = await this.run(["rev-parse", "--verify", "--quiet", revision]);
    return result.exitCode === 0 ? result.stdout.toString("utf8").trim() : undefined;
  }

  /** Which hash its ids are: sha1 or sha256. */
  async objectFormat(): Promise<string> {
    const format = await this.run(["config", "--get", "extensions.objectFormat"]);
    return format.stdout.toString("utf8").trim() || "sha1";
  }

  /** Name and id of every ref below these prefixes. */
  async refs(...prefixes: string[]): Promise<Map<string, string>> {
    const listing = await this.git("read the refs", ["for-each-ref", "--format=%(objectname) %(refname)", ...prefixes]);
    return new Map(
      listing
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => [line.slice(line.indexOf(" ") + 1), line.slice(0, line.indexOf(" "))]),
    );
  }

  async configure(settings: Record<string, string>): Promise<void> {
    for (const [key, value] of Object.entries(settings)) {
      await this.git("write the configuration", ["config", "--replace-all", key, value]);
    }
  }
}

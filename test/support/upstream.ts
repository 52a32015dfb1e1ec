import { join } from "node:path";
import { commit, git, write } from "../workspace/fixture.ts";
import type { BuildHost } from "./build-host.ts";

export interface Upstream {
  url: string;
  commits: { first: string; main: string; feature: string };
}

/** A bare repository with the branches `main` and `feature`, the tag `v1` at the first commit, and two change requests. */
export function publishUpstream(host: BuildHost): Upstream {
  const work = host.path("upstream");
  const bare = host.path("bare.git");
  write(join(work, "readme.txt"), "hello\n");
  git(work, "init", "-q", "-b", "main");
  const first = commit(work);
  git(work, "tag", "-a", "v1", "-m", "one");
  write(join(work, "app", "main.txt"), "in the app\n");
  const main = commit(work);
  git(work, "switch", "-q", "-c", "feature");
  write(join(work, "feature.txt"), "feature\n");
  const feature = commit(work);
  git(work, "switch", "-q", "main");
  git(host.folder, "clone", "-q", "--bare", work, bare);
  git(bare, "update-ref", "refs/pull/7/head", feature);
  git(bare, "update-ref", "refs/merge-requests/3/head", first);
  return { url: `file://${bare}`, commits: { first, main, feature } };
}

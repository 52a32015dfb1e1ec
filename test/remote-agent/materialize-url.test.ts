import { readdirSync, readFileSync, rmSync, statSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { parseGitUrl } from "../../remote-agent/materialize/git-url.ts";
import { withoutCredentials } from "../../remote-agent/materialize/index.ts";
import { resolveRoot } from "../../remote-agent/materialize/workspace-root.ts";
import { commit, exists, type Fixture, git, useFixture, write } from "../workspace/fixture.ts";
import { GitHttpServer } from "./git-http-server.ts";

const fixture = useFixture();
let server: GitHttpServer | undefined;
afterEach(async () => {
  vi.unstubAllEnvs();
  await server?.close();
  server = undefined;
});

/** A remote with a branch, a light and an annotated tag, and a change request outside of both. */
function origin(f: Fixture): { path: string; main: string; feature: string; request: string } {
  const path = f.repository("origin", { "readme.txt": "main\n", "apps/web/a": "1" });
  const main = git(path, "rev-parse", "HEAD");
  git(path, "tag", "light");
  git(path, "tag", "-a", "-m", "x", "v1.0");
  git(path, "checkout", "-q", "-b", "feature/x");
  write(join(path, "readme.txt"), "feature\n");
  const feature = commit(path);
  git(path, "checkout", "-q", "--detach", main);
  write(join(path, "readme.txt"), "request\n");
  const request = commit(path);
  git(path, "update-ref", "refs/pull/7/head", request);
  git(path, "checkout", "-q", "main");
  return { path, main, feature, request };
}

function mirrors(f: Fixture): string[] {
  return readdirSync(f.cacheRoot).map((name) => join(f.cacheRoot, name));
}

test("the default branch is checked out and tracks its origin, like a fresh clone", async () => {
  const f = fixture();
  const { path, main } = origin(f);
  for (const url of [path, `file://${path}`]) {
    const made = await f.fromUrl({ url });
    expect(made).toMatchObject({ kind: "git", root: "", branch: "main" });
    expect(git(made.path, "rev-parse", "HEAD")).toBe(main);
    expect(git(made.path, "status", "--porcelain")).toBe("");
    const reference = f.path(`reference-${url.length}`);
    git(f.folder, "clone", "-q", url, reference);
    const refs = (at: string) => git(at, "for-each-ref", "--format=%(objectname) %(refname) %(symref) %(upstream)");
    expect(refs(made.path)).toBe(refs(reference));
    const config = (at: string) => git(at, "config", "--local", "--list").split("\n").sort();
    expect(config(made.path)).toEqual(config(reference));
    expect(git(made.path, "pull", "--ff-only")).toContain("up to date");
    expect(exists(made.path, ".git", "objects", "info", "alternates")).toBe(false);
  }
});

test("a revision can be a branch, a tag, a commit, part of one, or a full ref name", async () => {
  const f = fixture();
  const { path, main, feature, request } = origin(f);
  const at = async (revision: string) => {
    const made = await f.fromUrl({ url: path, revision });
    return {
      branch: made.branch,
      head: git(made.path, "rev-parse", "HEAD"),
      branches: git(made.path, "branch", "--format=%(refname:short)"),
    };
  };
  expect(await at("feature/x")).toEqual({ branch: "feature/x", head: feature, branches: "feature/x" });
  expect(await at("refs/heads/feature/x")).toMatchObject({ branch: "feature/x", head: feature });
  expect(await at("light")).toMatchObject({ branch: undefined, head: main });
  expect(await at("v1.0")).toMatchObject({ branch: undefined, head: main });
  expect(await at("refs/tags/v1.0")).toMatchObject({ branch: undefined, head: main });
  expect(await at(feature)).toMatchObject({ branch: undefined, head: feature });
  expect(await at(feature.slice(0, 10))).toMatchObject({ branch: undefined, head: feature });
  expect(await at("refs/pull/7/head")).toMatchObject({ branch: undefined, head: request });
});

test("a commit that no branch or tag leads to is fetched by its id", async () => {
  const f = fixture();
  const { path, request } = origin(f);
  git(path, "update-ref", "refs/hidden/x", request);
  git(path, "update-ref", "-d", "refs/pull/7/head");
  git(path, "config", "uploadpack.hideRefs", "refs/hidden");
  git(path, "config", "uploadpack.allowAnySHA1InWant", "true");
  const made = await f.fromUrl({ url: path, revision: request });
  expect(readFileSync(join(made.path, "readme.txt"), "utf8")).toBe("request\n");
});

test("an unknown revision is named, and nothing that git could take for something else reaches it", async () => {
  const f = fixture();
  const { path } = origin(f);
  const unknown = [
    "nope",
    "-x",
    "--upload-pack=touch x",
    "a\nb",
    "a:b",
    "+main",
    "main*",
    "HEAD~1",
    "f".repeat(40),
    "refs/heads/nope",
  ];
  for (const revision of unknown) {
    await expect(f.fromUrl({ url: path, revision })).rejects.toMatchObject({
      code: "revision-unknown",
      message: expect.stringContaining(JSON.stringify(revision)),
    });
  }
  expect(
    readdirSync(f.path("host", "workspaces")).flatMap((name) => readdirSync(f.path("host", "workspaces", name))),
  ).toEqual([]);
});

test("a remote that has moved is followed, also backwards, and its deletions too", async () => {
  const f = fixture();
  const { path, main } = origin(f);
  await f.fromUrl({ url: path });
  write(join(path, "readme.txt"), "newer\n");
  const newer = commit(path);
  git(path, "branch", "-D", "feature/x");
  git(path, "branch", "feature");
  const made = await f.fromUrl({ url: path });
  expect(git(made.path, "rev-parse", "HEAD")).toBe(newer);
  expect(git(made.path, "for-each-ref", "--format=%(refname)", "refs/remotes").split("\n")).toEqual([
    "refs/remotes/origin/HEAD",
    "refs/remotes/origin/feature",
    "refs/remotes/origin/main",
  ]);
  git(path, "reset", "-q", "--hard", main);
  git(path, "symbolic-ref", "HEAD", "refs/heads/feature");
  expect(await f.fromUrl({ url: path })).toMatchObject({ branch: "feature" });
  expect(mirrors(f)).toHaveLength(1);
});

test("a detached or dangling HEAD of the remote", async () => {
  const f = fixture();
  const { path, request } = origin(f);
  git(path, "checkout", "-q", "--detach", request);
  const made = await f.fromUrl({ url: path });
  expect(made.branch).toBeUndefined();
  expect(git(made.path, "rev-parse", "HEAD")).toBe(request);
  git(path, "symbolic-ref", "HEAD", "refs/heads/gone");
  await expect(f.fromUrl({ url: path })).rejects.toMatchObject({
    code: "revision-unknown",
    message: expect.stringContaining("no default branch"),
  });
});

test("an empty remote gives an empty repository on an unborn branch", async () => {
  const f = fixture();
  git(f.folder, "init", "-q", "--bare", "-b", "main", f.path("empty.git"));
  const made = await f.fromUrl({ url: f.path("empty.git") });
  expect(made.branch).toBe(git(made.path, "symbolic-ref", "--short", "HEAD"));
  write(join(made.path, "first"), "1");
  commit(made.path);
  git(made.path, "push", "-q", "origin", "HEAD");
  expect(git(f.path("empty.git"), "for-each-ref", "--format=%(refname:short)")).toBe(made.branch);
});

test("a shallow remote and a SHA-256 remote", async () => {
  const f = fixture();
  const { path } = origin(f);
  commit(path, "second");
  git(f.folder, "clone", "-q", "--bare", "--depth", "1", `file://${path}`, f.path("shallow.git"));
  const shallow = await f.fromUrl({ url: f.path("shallow.git") });
  expect(git(shallow.path, "log", "--format=%s")).toBe("second");
  const modern = f.repository("modern", { a: "1" }, "--object-format=sha256");
  const made = await f.fromUrl({ url: modern });
  expect(git(made.path, "rev-parse", "HEAD")).toBe(git(modern, "rev-parse", "HEAD"));
});

test("a subdirectory becomes the root, and one that is missing leaves nothing", async () => {
  const f = fixture();
  const { path } = origin(f);
  const placement = { kind: "existing" as const, relativeCwd: "web" };
  expect(await f.fromUrl({ url: path, subdirectory: "apps/" }, { placement })).toMatchObject({ root: "apps/web" });
  const missing = f.fromUrl({ url: path, subdirectory: "nope" });
  await expect(missing).rejects.toMatchObject({
    code: "subdirectory-missing",
    message: expect.stringContaining("nope"),
  });
  expect(readdirSync(f.path("host", "workspaces", "w2"))).toEqual([]);
});

test("a root is a folder inside of the content, and equal parts count once", async () => {
  const f = fixture();
  write(f.path("content", "apps", "web", "file"), "1");
  symlinkSync("/etc", f.path("content", "out"));
  symlinkSync("apps/web", f.path("content", "in"));
  const root = (below?: string, further?: string) => resolveRoot(f.path("content"), below, further);
  expect(await root()).toBe("");
  expect(await root("apps/web/", "./apps/web")).toBe("apps/web");
  expect(await root("apps", "web")).toBe("apps/web");
  expect(await root(undefined, "in")).toBe("in");
  for (const missing of ["nope", "apps/web/file"]) {
    await expect(root(missing)).rejects.toMatchObject({
      code: "subdirectory-missing",
      message: expect.stringContaining(missing),
    });
  }
  for (const outside of ["out", "../x", "apps/../..", "/etc", "a\0b"]) {
    await expect(root(undefined, outside)).rejects.toMatchObject({ code: "cwd-outside-workspace" });
  }
});

test("a URL that is none, or that would run a command, is refused without its credentials", () => {
  const refused = [
    "ext::sh -c touch% x",
    "fd::3",
    "-oProxyCommand=x",
    "--upload-pack=x",
    "relative/path",
    "../up",
    "",
    "ftp://example.test/x",
    "ssh://-oProxyCommand=x/y",
    "https://-x/y",
    "http:///nohost",
    "-x@host:path",
    "host:path\nother",
    "alice:secret-word@host:path",
    "https://user:%0Apassword=x@example.test/x",
  ];
  for (const url of refused) {
    let error: unknown;
    try {
      parseGitUrl(url);
    } catch (thrown) {
      error = thrown;
    }
    expect(error, url).toMatchObject({ code: "source-unsupported" });
    expect(String(error)).not.toContain("secret-word");
  }
});

test("an account's rewriting of URLs cannot bring a forbidden transport back", async () => {
  const f = fixture();
  write(
    f.path("account.gitconfig"),
    `[url "ext::sh -c touch% ${f.path("ran")}% "]\n\tinsteadOf = https://example.test/\n[protocol "ext"]\n\tallow = always\n`,
  );
  vi.stubEnv("GIT_CONFIG_GLOBAL", f.path("account.gitconfig"));
  await expect(f.fromUrl({ url: "https://example.test/x" })).rejects.toMatchObject({ code: "git-source-unreachable" });
  expect(exists(f.path("ran"))).toBe(false);
});

test("credentials are taken out of every kind of URL", () => {
  expect(withoutCredentials("https://user:pass@example.test:8443/a.git")).toBe("https://example.test:8443/a.git");
  expect(withoutCredentials("https://token@example.test/a")).toBe("https://example.test/a");
  expect(withoutCredentials("https://a:b@c@example.test/a@b")).toBe("https://example.test/a@b");
  expect(withoutCredentials("ssh://git:pass@example.test/a")).toBe("ssh://git@example.test/a");
  expect(withoutCredentials("git@example.test:a/b.git")).toBe("git@example.test:a/b.git");
  expect(withoutCredentials("/srv/a@b:c")).toBe("/srv/a@b:c");
  expect(withoutCredentials("file:///srv/a")).toBe("file:///srv/a");
  expect(withoutCredentials("nonsense://u:p@h/x")).toBe("nonsense://h/x");
  expect(withoutCredentials("u:p@h:x")).toBe("h:x");
});

test("a source that cannot be reached is named, and nothing is left", async () => {
  const f = fixture();
  await expect(f.fromUrl({ url: f.path("nothing here") })).rejects.toMatchObject({
    code: "git-source-unreachable",
    message: expect.stringContaining("nothing here"),
  });
  await expect(f.fromUrl({ url: "http://127.0.0.1:1/x.git" })).rejects.toMatchObject({
    code: "git-source-unreachable",
  });
  expect(readdirSync(f.cacheRoot)).toEqual([]);
  expect(readdirSync(f.path("host", "workspaces", "w1"))).toEqual([]);
});

test("without git the host says so", async () => {
  const f = fixture();
  const { path } = origin(f);
  vi.stubEnv("PATH", f.path("empty"));
  await expect(f.fromUrl({ url: path })).rejects.toMatchObject({ code: "git-missing" });
});

test.each<[string, (mirror: string) => void]>([
  ["lost a pack", (mirror) => rmSync(join(mirror, "objects", "pack"), { recursive: true })],
  [
    "has a truncated pack",
    (mirror) => {
      const folder = join(mirror, "objects", "pack");
      for (const name of readdirSync(folder).filter((entry) => entry.endsWith(".pack"))) {
        truncateSync(join(folder, name), Math.floor(statSync(join(folder, name)).size / 2));
      }
    },
  ],
  ["has no HEAD", (mirror) => rmSync(join(mirror, "HEAD"))],
  [
    "is an empty folder",
    (mirror) => {
      for (const name of readdirSync(mirror)) rmSync(join(mirror, name), { recursive: true });
    },
  ],
  ["has nonsense for a configuration", (mirror) => writeFileSync(join(mirror, "config"), "[[[")],
])("a mirror that %s heals", async (_name, damage) => {
  const f = fixture();
  const { path } = origin(f);
  // One pack for all, so that losing it means losing everything.
  vi.stubEnv("GIT_CONFIG_GLOBAL", f.path("account.gitconfig"));
  write(f.path("account.gitconfig"), "[fetch]\n\tunpackLimit = 1\n");
  await f.fromUrl({ url: path });
  damage(mirrors(f)[0]!);
  const made = await f.fromUrl({ url: path });
  expect(git(made.path, "status", "--porcelain")).toBe("");
  expect(git(made.path, "fsck", "--no-dangling")).toBe("");
  expect(mirrors(f)).toHaveLength(1);
});

test("lock files of a git that was killed do not stand in the way", async () => {
  const f = fixture();
  const { path } = origin(f);
  await f.fromUrl({ url: path });
  const mirror = mirrors(f)[0]!;
  for (const name of ["packed-refs.lock", "HEAD.lock", "refs/heads/main.lock", "paseo-busy"])
    write(join(mirror, name), "");
  write(join(mirror, "objects/pack/tmp_pack_x"), "half");
  commit(path);
  git(path, "branch", "-D", "feature/x");
  const made = await f.fromUrl({ url: path });
  expect(git(made.path, "rev-parse", "HEAD")).toBe(git(path, "rev-parse", "HEAD"));
  expect(exists(mirror, "objects/pack/tmp_pack_x")).toBe(false);
  expect(exists(mirror, "paseo-busy")).toBe(false);
});

test("creates at the same time share one mirror and one fetch", async () => {
  const f = fixture();
  origin(f);
  server = new GitHttpServer(f.folder);
  const port = await server.listen();
  const url = `http://127.0.0.1:${port}/origin/.git`;
  const made = await Promise.all(Array.from({ length: 4 }, () => f.fromUrl({ url })));
  for (const { path } of made) expect(git(path, "status", "--porcelain")).toBe("");
  expect(mirrors(f)).toHaveLength(1);
  // Listings are POSTs too in protocol version 2; a fetch adds one to the listing of its own.
  expect(server.requests.filter((request) => request.startsWith("GET")).length).toBe(5);
});

test("cancelling in the middle of a transfer ends git and leaves nothing", async () => {
  const f = fixture();
  origin(f);
  server = new GitHttpServer(f.folder);
  const controller = new AbortController();
  let requests = 0;
  server.intercept = () => {
    requests += 1;
    // The listing takes two requests; the fetch's first is never answered.
    if (requests < 3) return false;
    controller.abort();
    return true;
  };
  const port = await server.listen();
  const url = `http://127.0.0.1:${port}/origin/.git`;
  await expect(f.fromUrl({ url }, { signal: controller.signal })).rejects.toMatchObject({ code: "cancelled" });
  expect(exists(f.path("host", "workspaces", "w1", "content"))).toBe(false);
  server.intercept = () => false;
  expect(git((await f.fromUrl({ url })).path, "status", "--porcelain")).toBe("");
});

test("a transfer that stalls ends by itself", async () => {
  const f = fixture();
  server = new GitHttpServer(f.folder);
  server.intercept = () => true;
  const port = await server.listen();
  vi.stubEnv("GIT_HTTP_LOW_SPEED_TIME", "1");
  await expect(f.fromUrl({ url: `http://127.0.0.1:${port}/origin/.git` })).rejects.toMatchObject({
    code: "git-source-unreachable",
  });
});

import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { expect, test } from "vitest";
import { tidyCache } from "../../remote-agent/materialize/cache-folder.ts";
import { materialize } from "../../remote-agent/materialize/index.ts";
import { withLock } from "../../remote-agent/materialize/lock.ts";
import { Repository } from "../../remote-agent/materialize/repository.ts";
import { RuntimeError } from "../../src/wire/errors.ts";
import { openDirectorySource, sourceKey } from "../../src/workspace/index.ts";
import { commit, exists, git, gitInput, status, type Transfer, useFixture, write } from "../workspace/fixture.ts";

const fixture = useFixture();
const never = new AbortController().signal;

function deferred(): { promise: Promise<void>; resolve: () => void } {
  let resolve = () => {};
  const promise = new Promise<void>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}

test("a lock is held by one at a time, in order; who gives up waiting lets the next one through", async () => {
  const order: string[] = [];
  const gate = deferred();
  const first = withLock("a", never, async () => {
    order.push("first");
    await gate.promise;
    order.push("first ends");
    throw new Error("failed");
  });
  const controller = new AbortController();
  const given = withLock("a", controller.signal, async () => order.push("never"));
  const third = withLock("a", never, async () => order.push("third"));
  await withLock("b", never, async () => order.push("other lock"));
  controller.abort(new RuntimeError("connection-lost", "gone"));
  await expect(given).rejects.toMatchObject({ code: "connection-lost" });
  await expect(withLock("a", AbortSignal.abort(), async () => {})).rejects.toMatchObject({ code: "cancelled" });
  expect(order).toEqual(["first", "other lock"]);
  gate.resolve();
  await expect(first).rejects.toThrow("failed");
  await third;
  expect(order).toEqual(["first", "other lock", "first ends", "third"]);
});

test("creates of one directory at the same time give whole workspaces, and the content travels once", async () => {
  const f = fixture();
  const path = f.repository("project");
  write(join(path, "noise"), randomBytes(200_000));
  commit(path);
  write(join(path, "dirty"), "1");
  const transfers: Transfer[] = [{}, {}, {}];
  const made = await Promise.all(transfers.map((transfer) => f.fromDirectory(path, { transfer })));
  for (const workspace of made) expect(status(workspace.path)).toEqual(status(path));
  expect(transfers.map(({ bytes }) => bytes! > 2_000)).toEqual([true, false, false]);
});

test("an upload that is cancelled or damaged leaves the cache as it was", async () => {
  const f = fixture();
  const path = f.repository("project");
  await f.fromDirectory(path);
  write(join(path, "more"), "1");
  commit(path);
  const input = () => f.input({ kind: "directory", key: sourceKey(path) });
  const opened = (signal: AbortSignal) => (have: { commits: string[] }) =>
    openDirectorySource(path, { kind: "existing" }, have, signal, () => {});

  const controller = new AbortController();
  const stalled = { ...input(), signal: controller.signal };
  const cancelled = materialize({
    ...stalled,
    supply: async (have) => {
      const { manifest, stream } = await opened(never)(have);
      stream.destroy();
      // The first bytes of a pack, and then silence.
      const silent = new Readable({ read() {} });
      silent.push("PACK");
      setImmediate(() => controller.abort());
      return { manifest, stream: silent };
    },
  });
  await expect(cancelled).rejects.toMatchObject({ code: "cancelled" });
  expect(exists(stalled.contentPath)).toBe(false);

  const garbled = input();
  const damaged = materialize({
    ...garbled,
    supply: async (have) => {
      const { manifest, stream } = await opened(never)(have);
      const chunks: Buffer[] = [];
      for await (const chunk of stream) chunks.push(chunk);
      const bytes = Buffer.concat(chunks);
      bytes[bytes.length - 30]! ^= 1;
      return { manifest, stream: Readable.from([bytes]) };
    },
  });
  await expect(damaged).rejects.toMatchObject({ code: "git-failed" });
  expect(exists(garbled.contentPath)).toBe(false);

  const refused = materialize({
    ...input(),
    supply: () => Promise.reject(new RuntimeError("source-missing", "not here")),
  });
  await expect(refused).rejects.toMatchObject({ code: "source-missing" });

  const transfer: Transfer = {};
  const made = await f.fromDirectory(path, { transfer });
  expect(transfer.have?.commits).toHaveLength(1);
  expect(git(made.path, "fsck", "--no-dangling")).toBe("");
  expect(status(made.path)).toEqual([""]);
});

test("a directory's cache that has lost everything is made anew, one that has lost a part after an error", async () => {
  const f = fixture();
  const path = f.repository("project", { "a.txt": "some text\n" });
  await f.fromDirectory(path);
  const cache = join(f.cacheRoot, readdirSync(f.cacheRoot)[0]!);
  rmSync(join(cache, "objects", "pack"), { recursive: true });
  expect(status((await f.fromDirectory(path)).path)).toEqual([""]);

  // One file's content is gone, which no ref tells.
  const packs = join(cache, "objects", "pack");
  const pack = readdirSync(packs).find((name) => name.endsWith(".pack"))!;
  const blob = git(path, "rev-parse", "HEAD:a.txt");
  git(f.folder, "init", "-q", "--bare", f.path("loose"));
  execFileSync("sh", ["-c", 'git unpack-objects -q <"$0"', join(packs, pack)], { cwd: f.path("loose") });
  rmSync(packs, { recursive: true });
  execFileSync("cp", ["-r", `${f.path("loose")}/objects/.`, `${cache}/objects`]);
  rmSync(join(cache, "objects", blob.slice(0, 2), blob.slice(2)));
  write(join(path, "more"), "1");
  commit(path);
  await expect(f.fromDirectory(path)).rejects.toMatchObject({
    code: "git-failed",
    message: expect.stringContaining("cache"),
  });
  expect(status((await f.fromDirectory(path)).path)).toEqual([""]);
});

test("a cache does not grow by a pack for ever", async () => {
  const f = fixture();
  const path = f.repository("project");
  const cache = f.path("cache.git");
  git(f.folder, "init", "-q", "--bare", cache);
  let parent = "";
  for (let i = 0; i < 52; i += 1) {
    const args = ["commit-tree", "-m", String(i), ...(parent ? ["-p", parent] : []), "HEAD^{tree}"];
    const id = git(path, ...args);
    gitInput(
      path,
      `${id}\n${parent ? `^${parent}\n` : ""}`,
      "pack-objects",
      "-q",
      "--revs",
      join(cache, "objects/pack/pack"),
    );
    parent = id;
  }
  git(cache, "update-ref", "refs/heads/main", parent);
  const packs = () => readdirSync(join(cache, "objects/pack")).filter((name) => name.endsWith(".pack")).length;
  expect(packs()).toBe(52);
  await tidyCache(new Repository(cache, undefined, never));
  expect(packs()).toBe(1);
  expect(git(cache, "rev-list", "--count", "main")).toBe("52");
});

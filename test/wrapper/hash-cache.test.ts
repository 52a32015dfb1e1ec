import { createHash } from "node:crypto";
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { HashCache } from "../../src/wrapper/hash-cache.ts";
import { scratchFolder } from "../support/scratch-folder.ts";

const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");

function fixture(): { folder: string; file: string; cache: string; hash(): string } {
  const folder = scratchFolder();
  const file = join(folder, "helper");
  const cache = join(folder, "run", "hash.json");
  writeFileSync(file, "first");
  return { folder, file, cache, hash: () => new HashCache(cache).sha256(file, statSync(file)) };
}

describe("the cache of checksums", () => {
  it("hashes once, and reads its answer afterwards", () => {
    const { file, cache, hash } = fixture();
    expect(hash()).toBe(sha256("first"));
    const kept = readFileSync(cache, "utf8");
    // Same size, times and inode: only the cache can answer with the old checksum.
    const { atime, mtime } = statSync(file);
    const stats = statSync(file);
    writeFileSync(file, "other");
    utimesSync(file, atime, mtime);
    expect(new HashCache(cache).sha256(file, stats)).toBe(sha256("first"));
    expect(readFileSync(cache, "utf8")).toBe(kept);
  });

  it("hashes again what was changed, replaced or lies elsewhere", () => {
    const { folder, file, cache, hash } = fixture();
    hash();
    writeFileSync(file, "longer than before");
    expect(hash()).toBe(sha256("longer than before"));
    const { atime, mtime } = statSync(file);
    writeFileSync(join(folder, "new"), "LONGER THAN BEFORE");
    utimesSync(join(folder, "new"), atime, mtime);
    renameSync(join(folder, "new"), file);
    expect(hash()).toBe(sha256("LONGER THAN BEFORE"));
    const other = join(folder, "other");
    writeFileSync(other, "elsewhere");
    expect(new HashCache(cache).sha256(other, statSync(other))).toBe(sha256("elsewhere"));
  });

  it.each(["", "{", "null", "[]", '{"key":1,"sha256":"x"}', '{"key":"k","sha256":"zz"}'])(
    "survives a damaged file: %j",
    (content) => {
      const { folder, cache, hash } = fixture();
      mkdirSync(join(folder, "run"));
      writeFileSync(cache, content);
      expect(hash()).toBe(sha256("first"));
      expect(JSON.parse(readFileSync(cache, "utf8")).sha256).toBe(sha256("first"));
    },
  );

  it("works without a place to keep anything", () => {
    const { folder, hash } = fixture();
    writeFileSync(join(folder, "run"), "a file where the folder should be");
    expect(hash()).toBe(sha256("first"));
  });

  it("keeps its file private and leaves nothing else", () => {
    const { folder, cache, hash } = fixture();
    hash();
    chmodSync(cache, 0o644);
    expect(hash()).toBe(sha256("first"));
    expect(readdirSync(join(folder, "run"))).toEqual(["hash.json"]);
    writeFileSync(join(folder, "helper"), "again");
    hash();
    expect(statSync(cache).mode & 0o777).toBe(0o600);
    expect(statSync(join(folder, "run")).mode & 0o777).toBe(0o700);
  });
});

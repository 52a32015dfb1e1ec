import { mkdirSync, readFileSync, renameSync, type Stats, writeFileSync } from "node:fs";
import { dirname } from "node:path";

/**
 * Remembers the checksum of a large file by its path, size and times, since every warm operation needs it and hashing
 * a helper of some megabytes takes longer than the whole operation.
 */
export class HashCache {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  sha256(path: string, stats: Stats): string {
    const key = `${path}\n${stats.size}\n${stats.mtimeMs}\n${stats.ctimeMs}\n${stats.ino}`;
    const known = this.#read();
    if (known?.key === key) return known.sha256;
    // Loaded only when it is needed: node:crypto costs start-up time.
    const { createHash } = process.getBuiltinModule("node:crypto");
    const sha256 = createHash("sha256").update(readFileSync(path)).digest("hex");
    this.#write({ key, sha256 });
    return sha256;
  }

  #read(): { key: string; sha256: string } | undefined {
    try {
      const value = JSON.parse(readFileSync(this.#path, "utf8"));
      if (typeof value.key === "string" && /^[0-9a-f]{64}$/.test(value.sha256)) return value;
    } catch {
      // Not there, or damaged: as good as not there.
    }
    return undefined;
  }

  #write(value: { key: string; sha256: string }): void {
    const temporary = `${this.#path}.${process.pid}`;
    try {
      mkdirSync(dirname(this.#path), { recursive: true, mode: 0o700 });
      writeFileSync(temporary, JSON.stringify(value), { mode: 0o600 });
      renameSync(temporary, this.#path);
    } catch {
      // Only a cache; the next operation hashes again.
    }
  }
}

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { type Readable, Transform } from "node:stream";
import { afterEach } from "vitest";
import { type MaterializeInput, type MaterializeResult, materialize } from "../../remote-agent/materialize/index.ts";
import { type SourceManifest, SourceManifestSchema } from "../../src/wire/source.ts";
import type { SourceHave } from "../../src/wire/source-have.ts";
import { openDirectorySource, sourceKey } from "../../src/workspace/index.ts";

/** A laptop and a host in one temporary folder: local directories, the host's caches, and workspaces on the host. */
export class Fixture {
  readonly folder = mkdtempSync(join(tmpdir(), "materialize-"));
  readonly cacheRoot = join(this.folder, "host", "cache", "git");
  readonly progress: string[] = [];
  #workspaces = 0;

  path(...parts: string[]): string {
    return join(this.folder, ...parts);
  }

  /** A new git repository with one commit on `main`. */
  repository(
    name: string,
    files: Record<string, string> = { "readme.txt": "hello\n" },
    ...initOptions: string[]
  ): string {
    const path = this.path(name);
    mkdirSync(path, { recursive: true });
    git(path, "init", "-q", "-b", "main", ...initOptions);
    for (const [file, text] of Object.entries(files)) write(join(path, file), text);
    git(path, "add", "-A");
    git(path, "commit", "-q", "--allow-empty", "-m", "first");
    return path;
  }

  newContentPath(): string {
    this.#workspaces += 1;
    const parent = this.path("host", "workspaces", `w${this.#workspaces}`);
    mkdirSync(parent, { recursive: true });
    return join(parent, "content");
  }

  input(source: MaterializeInput["source"], more: Partial<MaterializeInput> = {}): MaterializeInput {
    return {
      contentPath: this.newContentPath(),
      cacheRoot: this.cacheRoot,
      source,
      placement: { kind: "existing" },
      workspaceId: "Workspace 1",
      progress: (text) => this.progress.push(text),
      signal: new AbortController().signal,
      ...more,
    };
  }

  /** Materialises a git URL. */
  async fromUrl(
    source: { url: string; revision?: string; subdirectory?: string },
    more: Partial<MaterializeInput> = {},
  ): Promise<Made> {
    const input = this.input({ kind: "git", revision: "", ...source }, more);
    return { ...(await materialize(input)), path: input.contentPath };
  }

  /** Sends a local directory from one side to the other, as the wire does: JSON for the manifest, chunks for the bytes. */
  async fromDirectory(path: string, more: Partial<MaterializeInput> & { transfer?: Transfer } = {}): Promise<Made> {
    const { transfer = {}, ...rest } = more;
    const input = this.input({ kind: "directory", key: sourceKey(path) }, rest);
    input.supply ??= async (have) => {
      transfer.have = JSON.parse(JSON.stringify(have)) as SourceHave;
      const source = await openDirectorySource(path, input.placement, transfer.have, input.signal, input.progress);
      transfer.manifest = SourceManifestSchema.parse(JSON.parse(JSON.stringify(source.manifest)));
      return { manifest: transfer.manifest, stream: rechunked(source.stream, transfer) };
    };
    return { ...(await materialize(input)), path: input.contentPath };
  }

  remove(): void {
    execFileSync("chmod", ["-R", "u+rwX", this.folder]);
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export type Made = MaterializeResult & { path: string };

/** What went over the wire. */
export interface Transfer {
  have?: SourceHave;
  manifest?: SourceManifest;
  bytes?: number;
}

/** The same bytes in pieces of unequal sizes, which no reader may depend on. */
export function rechunked(stream: Readable, transfer: Transfer = {}): Readable {
  transfer.bytes = 0;
  let size = 1;
  const out = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      transfer.bytes = (transfer.bytes ?? 0) + chunk.length;
      for (let at = 0; at < chunk.length; at += size) {
        size = (size * 7) % 8191 || 1;
        this.push(chunk.subarray(at, at + size));
      }
      done();
    },
  });
  stream.on("error", (error) => out.destroy(error));
  out.once("close", () => stream.destroy());
  return stream.pipe(out);
}

/** Removed after each test, whatever its outcome. */
export function useFixture(): () => Fixture {
  let fixture: Fixture | undefined;
  afterEach(() => {
    fixture?.remove();
    fixture = undefined;
  });
  return () => (fixture ??= new Fixture());
}

const IDENTITY = {
  GIT_AUTHOR_NAME: "A",
  GIT_AUTHOR_EMAIL: "a@example.test",
  GIT_COMMITTER_NAME: "A",
  GIT_COMMITTER_EMAIL: "a@example.test",
};

export function git(cwd: string, ...args: string[]): string {
  return execFileSync("git", args, {
    cwd,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...IDENTITY },
  }).replace(/\n$/, "");
}

export function gitInput(cwd: string, input: string, ...args: string[]): string {
  return execFileSync("git", args, { cwd, encoding: "utf8", input, env: { ...process.env, ...IDENTITY } }).replace(
    /\n$/,
    "",
  );
}

/** The oracle for uncommitted state. */
export function status(path: string): string[] {
  return git(path, "status", "--porcelain=v2", "-z", "--untracked-files=all").split("\0");
}

export function write(path: string, text: string | Buffer): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}

export function commit(path: string, message = "more"): string {
  git(path, "add", "-A");
  git(path, "commit", "-q", "--allow-empty", "-m", message);
  return git(path, "rev-parse", "HEAD");
}

export function exists(...parts: string[]): boolean {
  return existsSync(join(...parts));
}

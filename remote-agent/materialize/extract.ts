import { constants } from "node:fs";
import { chmod, link, lstat, lutimes, mkdir, open, symlink, utimes } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Readable } from "node:stream";
import { Parser, type ReadEntry } from "tar";
import { RuntimeError } from "../../src/wire/errors.ts";
import { cancellation } from "../../src/wire/git-process.ts";

/**
 * Extracts a tar archive into a new folder. The archive need not be trusted: nothing is written outside of the folder.
 * That holds because no link exists while files are written (links are made last, when nothing follows them), a name may
 * not contain `..`, and nothing is ever replaced.
 *
 * The `tar` package parses; its own extraction is not used, because it rewrites or refuses links that lead out of the
 * folder, which a plain directory may well have, and leaves permissions to the umask.
 *
 * @throws RuntimeError wire-violation when the archive is damaged, incomplete or hostile, cancelled
 */
export async function extractArchive(stream: Readable, folder: string, signal: AbortSignal): Promise<void> {
  await mkdir(folder);
  const extraction = new Extraction(folder);
  const parser = new Parser({ strict: true });
  let current: ReadEntry | undefined;
  let complete = false;
  let queue: Promise<void> = Promise.resolve();
  let abort = () => {};
  const failed = new Promise<never>((_, reject) => {
    abort = () => reject(cancellation(signal));
    signal.addEventListener("abort", abort, { once: true });
    if (signal.aborted) abort();
    const cutShort = () => stream.readableEnded || reject(stream.errored ?? violation("it was cut short"));
    stream.once("error", reject);
    stream.once("close", cutShort);
    if (stream.destroyed) cutShort();
    parser.on("error", (error: Error) => reject(violation(error.message)));
    // The parser holds the next entry back until this one has been read, so the queue never grows.
    parser.on("entry", (entry: ReadEntry) => {
      queue = queue.then(() => {
        current = entry;
        return extraction.add(entry);
      });
      queue.catch(reject);
    });
  });
  parser.on("eof", () => {
    complete = true;
  });
  const parsed = new Promise<void>((resolve) => parser.once("end", () => resolve()));
  try {
    stream.pipe(parser as unknown as NodeJS.WritableStream);
    await Promise.race([failed, parsed]);
    await Promise.race([failed, queue]);
    if (!complete) throw violation("it ends too early");
    await extraction.finish();
  } catch (error) {
    stream.destroy();
    // Ends the reading of an entry whose rest will never come.
    current?.on("error", () => {}).destroy(new Error("The extraction has failed"));
    // Nothing is written any more once this function is left.
    await queue.catch(() => {});
    const { code } = error as NodeJS.ErrnoException;
    throw code !== undefined && NAME_CLASHES.has(code) && !(error instanceof RuntimeError)
      ? violation(String(error))
      : error;
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

/** What the file system says of an archive that names one place twice, or something below a file. */
const NAME_CLASHES = new Set(["EEXIST", "ENOTDIR", "EISDIR"]);

interface Pending {
  path: string;
  mode: number;
  modified: Date | undefined;
}

class Extraction {
  readonly #root: string;
  /** Folders made so far, by their absolute path; only below these is anything created. */
  readonly #folders = new Map<string, Pending>();
  readonly #links: { path: string; target: string; modified: Date | undefined }[] = [];

  constructor(root: string) {
    this.#root = root;
    this.#folders.set(root, { path: root, mode: 0o755, modified: undefined });
  }

  async add(entry: ReadEntry): Promise<void> {
    const path = this.#place(entry.path);
    switch (entry.type) {
      case "Directory":
        await this.#folder(path, entry.mode ?? 0o755, entry.mtime);
        entry.resume();
        return;
      case "File":
        await this.#parents(path);
        return writeFile(path, entry);
      case "Link":
        await this.#parents(path);
        await this.#hardLink(path, this.#place(entry.linkpath ?? ""));
        entry.resume();
        return;
      case "SymbolicLink":
        this.#links.push({ path, target: entry.linkpath ?? "", modified: entry.mtime });
        entry.resume();
        return;
      default:
        throw violation(`it has an entry of the type ${entry.type}`);
    }
  }

  /** Links, then the folders from the inside out: making something in a folder changes its time and needs its permission. */
  async finish(): Promise<void> {
    for (const { path, target, modified } of this.#links) {
      await this.#parents(path);
      await symlink(target, path);
      if (modified) await lutimes(path, modified, modified);
    }
    for (const { path, mode, modified } of [...this.#folders.values()].reverse()) {
      if (modified) await utimes(path, modified, modified);
      await chmod(path, mode);
    }
  }

  #place(name: string): string {
    const parts = name.split("/").filter((part) => part !== "" && part !== ".");
    if (name.startsWith("/") || parts.includes("..") || name.includes("\0"))
      throw violation(`it names ${JSON.stringify(name)}`);
    return join(this.#root, ...parts);
  }

  async #folder(path: string, mode: number, modified: Date | undefined): Promise<void> {
    await this.#parents(path);
    const known = this.#folders.get(path);
    if (!known) await mkdir(path, 0o700);
    this.#folders.set(path, { path, mode: mode & 0o7777, modified });
  }

  /** Makes the folders that lead to a path. One that this extraction has not made may be a link, and is refused by mkdir. */
  async #parents(path: string): Promise<void> {
    const parent = dirname(path);
    if (path === this.#root || this.#folders.has(parent)) return;
    await this.#folder(parent, 0o755, undefined);
  }

  async #hardLink(path: string, target: string): Promise<void> {
    const stats = await lstat(target).catch(() => undefined);
    if (!stats?.isFile() || !this.#folders.has(dirname(target)))
      throw violation(`it links to ${JSON.stringify(target)}`);
    await link(target, path);
  }
}

async function writeFile(path: string, entry: ReadEntry): Promise<void> {
  const file = await open(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o600);
  try {
    for await (const chunk of entry) await file.writeFile(chunk);
    // After the content, which would clear set-user-id bits; the mode given to open is subject to the umask.
    await file.chmod((entry.mode ?? 0o644) & 0o7777);
    if (entry.mtime) await file.utimes(entry.mtime, entry.mtime);
  } finally {
    await file.close();
  }
}

function violation(what: string): RuntimeError {
  return new RuntimeError("wire-violation", `The archive of the source directory cannot be extracted: ${what}`);
}

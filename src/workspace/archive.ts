import { relative } from "node:path";
import { PassThrough, type Readable } from "node:stream";
import * as tar from "tar";
import { RuntimeError } from "../wire/errors.ts";
import { cancellation } from "../wire/git-process.ts";
import { count } from "./count.ts";

/**
 * A directory outside of git as a tar stream: files, folders (empty ones too), links as they are, permissions and times
 * of modification in seconds. Owners mean nothing on another machine; sockets, named pipes and devices stay behind.
 */
export function archiveStream(folder: string, signal: AbortSignal, progress: (text: string) => void): Readable {
  progress("Packing the directory…");
  let skipped = 0;
  const pack = new tar.Pack({
    cwd: folder,
    // On the sending side this only keeps names as they are.
    preservePaths: true,
    filter: (_path, stats) => {
      const travels = !("isFile" in stats) || stats.isFile() || stats.isDirectory() || stats.isSymbolicLink();
      if (!travels) skipped += 1;
      return travels;
    },
    onWriteEntry: (entry) => {
      // Who owns the files here is nobody's business there.
      if (entry.stat) Object.assign(entry.stat, { uid: 0, gid: 0 });
      entry.myuser = "";
    },
  });
  const stream = new PassThrough();
  const abort = () => stream.destroy(cancellation(signal));
  pack.on("error", (error: unknown) => stream.destroy(unreadable(folder, error)));
  pack.on("end", () => {
    if (skipped > 0) progress(`${count(skipped, "socket, pipe or device", "sockets, pipes and devices")} left behind.`);
  });
  pack.pipe(stream);
  pack.add(".").end();
  if (signal.aborted) abort();
  signal.addEventListener("abort", abort, { once: true });
  stream.once("close", () => {
    signal.removeEventListener("abort", abort);
    pack.unpipe(stream);
    pack.pause();
  });
  return stream;
}

function unreadable(folder: string, error: unknown): RuntimeError {
  const { code, path, message } = error as NodeJS.ErrnoException;
  const name = path === undefined ? folder : relative(folder, path) || folder;
  return new RuntimeError("source-unreadable", `${folder} cannot be packed: ${reason(code, name) ?? message}`, "", {
    cause: error,
  });
}

function reason(code: string | undefined, name: string): string | undefined {
  // Node turns bytes that are not UTF-8 into this character, and then finds no such file.
  if (code === "ENOENT" && name.includes("\ufffd")) return `the name ${name} is not valid UTF-8`;
  if (code === "ENOENT" || code === "EOF") return `${name} changed while it was read`;
  if (code === "EACCES" || code === "EPERM") return `permission to read ${name} is missing`;
  return undefined;
}

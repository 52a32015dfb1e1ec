import { type Readable, Transform } from "node:stream";
import { gitFailure, spawnGit } from "../wire/git-process.ts";
import { count } from "./count.ts";
import type { Scratch } from "./scratch.ts";
import type { WorkTree } from "./work-tree.ts";

/** Signature, version, number of objects (u32, big-endian): gitformat-pack(5). */
const PACK_HEADER_BYTES = 12;

export interface PackRequest {
  /** Objects to send with everything that they lead to. */
  wanted: Iterable<string>;
  /** Commits and trees that the receiver has with everything that they lead to. */
  had: Iterable<string>;
}

/**
 * One pack as a stream. It ends only once git has succeeded; a failure, or the destruction of the stream, ends git.
 * `onClose` is called exactly once, when git has no more use for the scratch folder.
 */
export function packStream(
  tree: WorkTree,
  scratch: Scratch,
  request: PackRequest,
  signal: AbortSignal,
  progress: (text: string) => void,
  onClose: () => void,
): Readable {
  const lines = [...request.wanted, ...[...request.had].map((id) => `^${id}`)];
  const process = spawnGit(["pack-objects", "--revs", "--thin", "--stdout", "--delta-base-offset", "--quiet"], {
    cwd: tree.top,
    signal,
    env: scratch.env,
    input: lines.map((line) => `${line}\n`).join(""),
  });
  let header: Buffer | undefined = Buffer.alloc(0);
  const stream = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      if (header) {
        header = Buffer.concat([header, chunk.subarray(0, PACK_HEADER_BYTES)]);
        if (header.length >= PACK_HEADER_BYTES) {
          progress(`Sending ${count(header.readUInt32BE(8), "object")}…`);
          header = undefined;
        }
      }
      done(null, chunk);
    },
    flush(done) {
      process.finished.then(
        (end) => done(end.exitCode === 0 ? null : gitFailure(`pack the objects of ${tree.top}`, end)),
        (error: Error) => done(error),
      );
    },
  });
  process.stdout.on("error", () => {});
  process.stdout.on("close", () => {
    // Cut short, by a failure to start or by cancellation: `finished` knows why.
    if (!process.stdout.readableEnded) process.finished.catch((error: Error) => stream.destroy(error));
  });
  process.stdout.pipe(stream);
  stream.once("close", () => {
    process.stop();
    process.finished.catch(() => {}).finally(onClose);
  });
  return stream;
}

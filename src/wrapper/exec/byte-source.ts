import { createReadStream, fstatSync } from "node:fs";
import { Socket } from "node:net";
import type { Readable } from "node:stream";

/**
 * Descriptor 0 as a stream of raw bytes, whatever it is.
 * @returns a paused stream; destroying it closes the descriptor, so that a writer gets EPIPE
 */
export function openByteSource(fd: number): Readable {
  const kind = fstatSync(fd);
  if (kind.isFIFO() || kind.isSocket()) return new Socket({ fd, readable: true, writable: false, allowHalfOpen: true });
  // Files, devices, and a terminal when somebody tries this by hand: read in the thread pool.
  return createReadStream("", { fd, highWaterMark: 64 * 1024 });
}

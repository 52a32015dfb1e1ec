import { createReadStream, fstatSync } from "node:fs";
import { Socket } from "node:net";
import type { Readable } from "node:stream";
import { closeDescriptor } from "./descriptor.ts";

/** Descriptor 0 as a stream of raw bytes, whatever it is; paused until somebody listens. */
export function openByteSource(fd: number): Readable {
  const kind = fstatSync(fd);
  if (kind.isFIFO() || kind.isSocket()) return new Socket({ fd, readable: true, writable: false, allowHalfOpen: true });
  // Files, devices, and a terminal when somebody tries this by hand: read in the thread pool.
  return createReadStream("", { fd, highWaterMark: 64 * 1024, autoClose: false });
}

/** Reads no more of it and closes the descriptor, so that its writer gets EPIPE. */
export function closeByteSource(source: Readable, fd: number): void {
  source.once("close", () => closeDescriptor(fd));
  source.destroy();
}

import { createReadStream, fstatSync } from "node:fs";
import { Socket } from "node:net";
import type { Readable } from "node:stream";
import { closeDescriptor, isPipe } from "./descriptor.ts";

/** Descriptor 0 as a stream of raw bytes, whatever it is; paused until somebody listens. */
export function openByteSource(fd: number): Readable {
  if (isPipe(fd)) return new Socket({ fd, readable: true, writable: false, allowHalfOpen: true });
  // It may be a terminal, when somebody tries this by hand; a thread that waits for a key would keep this process from
  // ending, and Node knows how to read one without.
  if (fstatSync(fd).isCharacterDevice()) return process.stdin;
  return createReadStream("", { fd, highWaterMark: 64 * 1024, autoClose: false });
}

/** Reads no more of it and closes the descriptor, so that its writer gets EPIPE. */
export function closeByteSource(source: Readable, fd: number): void {
  source.once("close", () => closeDescriptor(fd));
  source.destroy();
}

import { readSync, writeSync } from "node:fs";

/** Descriptor I/O without streams: a short-lived process has no time to set those up for one message. */

const CHUNK_BYTES = 64 * 1024;

/** Writes everything; a descriptor that does not block is waited for. */
export function writeAll(fd: number, data: string | Uint8Array): void {
  const bytes = typeof data === "string" ? Buffer.from(data) : data;
  let at = 0;
  while (at < bytes.length) {
    try {
      at += writeSync(fd, bytes, at);
    } catch (error) {
      if (!isAgain(error)) throw error;
      pauseBriefly();
    }
  }
}

/**
 * Reads until end of file.
 * @param limit bytes; reading stops once there are more, and a longer result says so
 */
export function readToEnd(fd: number, limit: number): Buffer {
  const chunks: Buffer[] = [];
  let size = 0;
  while (size <= limit) {
    const chunk = readSome(fd);
    if (chunk.length === 0) break;
    chunks.push(chunk);
    size += chunk.length;
  }
  return Buffer.concat(chunks);
}

/** Reads what is there, waiting for the first byte; an empty buffer is end of file. */
export function readSome(fd: number): Buffer {
  const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
  for (;;) {
    const count = tryRead(fd, buffer);
    if (count !== undefined) return buffer.subarray(0, count);
    pauseBriefly();
  }
}

/** Reads into a buffer. @returns undefined when the descriptor does not block and has nothing */
export function tryRead(fd: number, buffer: Buffer): number | undefined {
  try {
    return readSync(fd, buffer);
  } catch (error) {
    if (isAgain(error)) return undefined;
    // A terminal that was hung up, or a reset socket: as good as its end.
    if (["EOF", "EIO", "ECONNRESET"].includes((error as NodeJS.ErrnoException).code ?? "")) return 0;
    throw error;
  }
}

function isAgain(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === "EAGAIN";
}

/** There is no poll(2) in Node; a millisecond is short enough for the rare descriptor that came to us non-blocking. */
function pauseBriefly(): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
}

import { closeSync, openSync } from "node:fs";

/**
 * Closes descriptor 0, 1 or 2, so that whoever holds the other end is told. libuv never closes these three, and a number
 * that is free would go to the next file or socket, so the null device takes its place.
 */
export function closeDescriptor(fd: number): void {
  closeSync(fd);
  openSync("/dev/null", "r+");
}

import { closeSync, fstatSync, openSync } from "node:fs";

/** Whether a descriptor is a stream that an event loop can wait for; a file or a device is used in another way. */
export function isPipe(fd: number): boolean {
  const kind = fstatSync(fd);
  return kind.isFIFO() || kind.isSocket();
}

/**
 * Closes descriptor 0, 1 or 2, so that whoever holds the other end is told. libuv never closes these three, and a number
 * that is free would go to the next file or socket, so the null device takes its place.
 */
export function closeDescriptor(fd: number): void {
  closeSync(fd);
  openSync("/dev/null", "r+");
}

import type { Duplex } from "node:stream";

/**
 * Joins two byte streams until one of them is gone, with back-pressure both ways and ends passed on.
 * @param onClosed called once, with whether `far` had ended by itself when `near` went away
 */
export function splice(near: Duplex, far: Duplex, onClosed: (farEndedFirst: boolean) => void): void {
  let farEnded = false;
  let closed = false;
  const finish = () => {
    if (closed) return;
    closed = true;
    onClosed(farEnded);
  };
  near.pipe(far);
  far.pipe(near);
  far.once("end", () => {
    farEnded = true;
  });
  near.once("end", finish);
  near.once("close", finish);
  far.once("close", () => {
    // A link that is lost must not look like an orderly end to the wrapper; pipe() has passed on an orderly one.
    if (!farEnded) near.destroy();
    finish();
  });
  near.on("error", finish);
  far.on("error", () => near.destroy());
}

import type { Duplex } from "node:stream";

/**
 * Joins two byte streams until one of them is gone, with back-pressure both ways and ends passed on.
 * @param onNearGone called once, when `near` has gone away before `far`; not when `far` has ended or was lost
 */
export function splice(near: Duplex, far: Duplex, onNearGone: () => void): void {
  let over = false;
  let farEnded = false;
  const nearGone = () => {
    if (over) return;
    over = true;
    onNearGone();
  };
  near.pipe(far);
  far.pipe(near);
  far.once("end", () => {
    farEnded = true;
    over = true;
  });
  near.once("end", nearGone);
  near.once("close", nearGone);
  near.on("error", nearGone);
  far.once("close", () => {
    over = true;
    // A link that is lost must not look like an orderly end to the wrapper; pipe() has passed on an orderly one.
    if (!farEnded) near.destroy();
  });
  far.on("error", () => {
    over = true;
    near.destroy();
  });
}

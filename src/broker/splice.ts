import type { Duplex } from "node:stream";

export interface SpliceEvents {
  /** `near` has gone away before `far`. Called once, or never when `far` has ended or was lost first. */
  onNearGone(): void;
  /** `far` was lost before its end. `near` gets an end and is left to close. Called once, or never. */
  onFarLost(): void;
}

/** Joins two byte streams until one of them is gone, with back-pressure both ways and ends passed on. */
export function splice(near: Duplex, far: Duplex, { onNearGone, onFarLost }: SpliceEvents): void {
  let over = false;
  let nearIsGone = false;
  const nearGone = () => {
    if (over) return;
    over = true;
    nearIsGone = true;
    onNearGone();
  };
  near.pipe(far);
  far.pipe(near);
  far.once("end", () => {
    over = true;
  });
  near.once("end", nearGone);
  near.once("close", nearGone);
  near.on("error", nearGone);
  far.on("error", () => {});
  far.once("close", () => {
    // It has ended its half, and nothing will come to end the other.
    if (nearIsGone) near.destroy();
    if (over) return;
    over = true;
    near.unpipe(far);
    near.resume();
    // Not destroyed: that the wrapper closes its side is how we see that it is there and has noticed.
    near.end();
    onFarLost();
  });
}

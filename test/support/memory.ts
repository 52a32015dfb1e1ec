import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** What this process holds after a full garbage collection, in bytes: objects of JavaScript and memory behind buffers. */
export function heldMemory(): number {
  collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

let collector: (() => void) | undefined;

/** The function behind `node --expose-gc`, without restarting. Twice, since buffers are freed after their objects. */
function collectGarbage(): void {
  if (collector === undefined) {
    setFlagsFromString("--expose-gc");
    collector = runInNewContext("gc") as () => void;
  }
  collector();
  collector();
}

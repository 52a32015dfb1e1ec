import { setTimeout } from "node:timers/promises";
import type { DelayingProxy } from "./delaying-proxy.ts";

/** Cuts of a link in a random order that a seed repeats. */

export interface Cut {
  kind: string;
  /** How long the link does not work, in ms. */
  lengthMs: number;
}

type Cutter = (proxy: DelayingProxy, lengthMs: number) => Promise<void>;

const CUTTERS: Record<string, Cutter> = {
  reset: async (proxy) => proxy.cut(),
  /** What stood is dead in silence, what comes anew gets through. */
  "half-open": async (proxy) => {
    proxy.blackhole(true);
    proxy.blackhole(false);
  },
  stall: async (proxy, lengthMs) => {
    proxy.stall(true);
    await setTimeout(lengthMs);
    proxy.stall(false);
  },
  /** Nobody listens. */
  outage: async (proxy, lengthMs) => {
    await proxy.refuse(true);
    proxy.cut();
    await setTimeout(lengthMs);
    await proxy.refuse(false);
  },
  /** Everything is swallowed, attempts to come back included. */
  silence: async (proxy, lengthMs) => {
    proxy.blackhole(true);
    await setTimeout(lengthMs);
    proxy.blackhole(false);
  },
};

/** @param longestMs longest time without a link */
export function randomCuts(seed: number, count: number, longestMs: number): Cut[] {
  const random = randomNumbers(seed);
  const kinds = Object.keys(CUTTERS);
  return Array.from({ length: count }, () => ({
    kind: kinds[Math.floor(random() * kinds.length)]!,
    // Mostly short, sometimes long.
    lengthMs: Math.round(longestMs * random() ** 2),
  }));
}

/** Makes a cut. Resolves when the link works again. */
export async function makeCut(proxy: DelayingProxy, { kind, lengthMs }: Cut): Promise<void> {
  await CUTTERS[kind]!(proxy, lengthMs);
}

/** Numbers from 0 to below 1, the same for the same seed (mulberry32). */
export function randomNumbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

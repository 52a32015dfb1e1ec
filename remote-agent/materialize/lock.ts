import { cancellation } from "../../src/wire/git-process.ts";

/** The last holder of each lock, or who will be. */
const queues = new Map<string, Promise<void>>();

/**
 * Runs one task at a time per name, in the order of the calls. Enough as a lock because one agent owns a root.
 * @param signal gives up waiting; a task that runs has to watch it itself
 * @throws what the task throws, or RuntimeError cancelled
 */
export async function withLock<T>(name: string, signal: AbortSignal, task: () => Promise<T>): Promise<T> {
  const before = queues.get(name) ?? Promise.resolve();
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  // Whoever gives up waiting still passes the lock on only after its predecessor.
  const turn = before.then(() => held);
  queues.set(name, turn);
  turn.then(() => {
    if (queues.get(name) === turn) queues.delete(name);
  });
  try {
    await untilAborted(before, signal);
    return await task();
  } finally {
    release();
  }
}

async function untilAborted(wait: Promise<void>, signal: AbortSignal): Promise<void> {
  if (signal.aborted) throw cancellation(signal);
  let abort = () => {};
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(cancellation(signal));
    signal.addEventListener("abort", abort, { once: true });
  });
  try {
    await Promise.race([wait, aborted]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

import { setTimeout as delay } from "node:timers/promises";
import type { Carrier, CommandChannel } from "../ssh/index.ts";
import { RuntimeError } from "../wire/errors.ts";

/**
 * Milliseconds before each further attempt. With MaxSessions 1 the place may still be taken by a session that has just
 * ended: OpenSSH's server gives it back only after it has taken all that came together with the close.
 */
const RETRIES_MS = [10, 50, 200, 500];

type RunOptions = Parameters<Carrier["run"]>[1];

/**
 * Runs a command on a connection on which one of our sessions has just ended.
 * @throws RuntimeError session-refused when there is still no place, and what `Carrier.run` throws
 */
export async function runAfterSession(
  carrier: Carrier,
  command: string,
  options?: RunOptions,
): Promise<CommandChannel> {
  for (const waitMs of RETRIES_MS) {
    try {
      return await carrier.run(command, options);
    } catch (error) {
      if (RuntimeError.from(error).code !== "session-refused") throw error;
    }
    await delay(waitMs);
  }
  return await carrier.run(command, options);
}

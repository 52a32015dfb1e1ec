import { spawn } from "node:child_process";
import { once } from "node:events";
import { timed } from "./timed.ts";

/** Milliseconds from the start of a node that does nothing to its end: the least that any operation can take. */
export async function measureNode(env: NodeJS.ProcessEnv): Promise<number> {
  const { milliseconds } = await timed(() =>
    once(spawn(process.execPath, ["-e", "0"], { env, stdio: "ignore" }), "close"),
  );
  return milliseconds;
}

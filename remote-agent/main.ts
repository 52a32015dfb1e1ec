import { closeSync, writeSync } from "node:fs";
import * as z from "zod/mini";
import { Agent } from "./agent.ts";
import { runBridge } from "./bridge.ts";
import { failureOf } from "./failure.ts";

/**
 * Entry of the agent bundle: `node agent.cjs bridge <socket>` is the host's end of a bridge to an agent that runs, `node
 * agent.cjs <json>` an agent. That one is started by the bootstrap, detached, with its standard
 * output and error on a log file and descriptor 3 on a pipe: one line there says what became of the start.
 */

const ConfigSchema = z.strictObject({
  root: z.string(),
  agentFolder: z.string(),
  build: z.string(),
  socketFolder: z.string(),
  socketName: z.string(),
  takeOver: z.boolean(),
  idleMs: z.int(),
});

const READY_FD = 3;

async function main(): Promise<void> {
  // Its session outlives the terminal or SSH session that started it.
  process.on("SIGHUP", () => {});
  // A bug in one operation must not end the executions of all others; it is in the log.
  process.on("uncaughtException", (error) => console.error(new Date().toISOString(), "uncaught", error));
  process.on("unhandledRejection", (error) => console.error(new Date().toISOString(), "unhandled", error));
  let agent: Agent | undefined;
  try {
    agent = await Agent.start(ConfigSchema.parse(JSON.parse(process.argv[2] ?? "")));
  } catch (error) {
    console.error(error);
    answer({ type: "error", error: failureOf(error).toData() });
    process.exit(1);
  }
  process.once("SIGTERM", () => void agent?.stop());
  answer({ type: agent === undefined ? "other" : "ready", pid: process.pid });
  await agent?.ended;
  process.exit(0);
}

function answer(value: unknown): void {
  try {
    writeSync(READY_FD, `${JSON.stringify(value)}\n`);
    closeSync(READY_FD);
  } catch {
    // The bootstrap is gone; whoever comes next finds the socket.
  }
}

if (process.argv[2] === "bridge") runBridge(process.argv[3] ?? "");
else void main();

import { closeSync, writeSync } from "node:fs";
import { join } from "node:path";
import { RuntimeError } from "../wire/errors.ts";
import { AgentFiles } from "./agent-files.ts";
import { Broker } from "./broker.ts";

/**
 * Entry of the broker: `node broker.cjs <folder> <name>`, started by a wrapper in a session of its own. One line on
 * descriptor 3 says that a broker serves now, this one or another.
 */

const READY_FD = 3;

async function main(folder: string, name: string): Promise<void> {
  process.on("SIGHUP", () => {});
  process.on("uncaughtException", (error) => console.error(new Date().toISOString(), "uncaught", error));
  process.on("unhandledRejection", (error) => console.error(new Date().toISOString(), "unhandled", error));
  let broker: Broker | undefined;
  try {
    broker = await Broker.start(folder, name, new AgentFiles(join(__dirname, "agent")));
  } catch (error) {
    answer({ type: "error", error: RuntimeError.from(error).toData() });
    process.exit(1);
  }
  answer({ type: "ready" });
  await broker?.ended;
  process.exit(0);
}

function answer(value: unknown): void {
  try {
    writeSync(READY_FD, `${JSON.stringify(value)}\n`);
    closeSync(READY_FD);
  } catch {
    // The wrapper that started this broker is gone; others will come.
  }
}

void main(process.argv[2] ?? "", process.argv[3] ?? "");

import { spawn } from "node:child_process";
import { openSync, renameSync, statSync } from "node:fs";
import type { Socket } from "node:net";
import { join } from "node:path";
import { RuntimeError } from "../wire/errors.ts";
import { securePrivateFolder } from "../wire/private-folder.ts";

const START_DEADLINE_MS = 15_000;
const MAX_LOG_BYTES = 1024 * 1024;
/** Slows every start of node, and is no business of a process that serves many callers. */
const DROPPED_VARIABLES = ["NODE_OPTIONS", "NODE_EXTRA_CA_CERTS", "NODE_V8_COVERAGE"];

/**
 * Starts a broker in a session of its own, so that it survives whatever ends this process's group, and waits until it,
 * or another one that was faster, serves.
 * @throws RuntimeError broker-start-failed, runtime-folder-unsafe
 */
export async function startBroker(folder: string, name: string): Promise<void> {
  securePrivateFolder(folder);
  const env = { ...process.env };
  for (const variable of DROPPED_VARIABLES) delete env[variable];
  const log = openLog(folder);
  const child = spawn(process.execPath, [join(__dirname, "broker.cjs"), folder, name], {
    cwd: "/",
    env,
    detached: true,
    stdio: ["ignore", log, log, "pipe"],
  });
  child.unref();
  const ready = child.stdio[3] as Socket;
  const text = await new Promise<string>((resolve, reject) => {
    const timer = setTimeout(
      () => reject(failed(folder, `no answer within ${START_DEADLINE_MS / 1000} s`)),
      START_DEADLINE_MS,
    );
    let received = "";
    ready.on("data", (chunk: Buffer) => {
      received += chunk.toString("utf8");
    });
    ready.once("close", () => {
      clearTimeout(timer);
      resolve(received);
    });
    child.once("error", (error) => reject(failed(folder, error.message)));
  });
  let answer: { type?: string; error?: { code: string; message: string; remedy: string } };
  try {
    answer = JSON.parse(text);
  } catch {
    throw failed(folder, "it ended at once");
  }
  if (answer.error !== undefined) throw RuntimeError.fromData(answer.error);
}

function openLog(folder: string): number {
  const path = join(folder, "broker.log");
  try {
    if (statSync(path).size > MAX_LOG_BYTES) renameSync(path, `${path}.1`);
  } catch {
    // There is none yet.
  }
  return openSync(path, "a", 0o600);
}

function failed(folder: string, reason: string): RuntimeError {
  return new RuntimeError(
    "broker-start-failed",
    `The connection broker did not start (${reason})`,
    `Look at ${join(folder, "broker.log")}`,
  );
}

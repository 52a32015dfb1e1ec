import { spawn } from "node:child_process";
import { openSync, readlinkSync, renameSync, rmSync, statSync, symlinkSync } from "node:fs";
import type { Socket } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { RuntimeError } from "../wire/errors.ts";
import { securePrivateFolder } from "../wire/private-folder.ts";

const START_DEADLINE_MS = 15_000;
/** Milliseconds between two looks at whether another wrapper has started a broker. */
const LOOK_MS = 25;
const MAX_LOG_BYTES = 1024 * 1024;
/** Slows every start of node, and is no business of a process that serves many callers. */
const DROPPED_VARIABLES = ["NODE_OPTIONS", "NODE_EXTRA_CA_CERTS", "NODE_V8_COVERAGE"];

/**
 * Starts a broker, or waits for one that another wrapper starts: when a broker is killed, every wrapper that it served
 * wants the next one, and hundreds of processes that start only to give way to one take all processors for long.
 * @throws RuntimeError broker-start-failed, runtime-folder-unsafe
 */
export async function startBroker(folder: string, name: string): Promise<void> {
  securePrivateFolder(folder);
  const mark = join(folder, `${name}.starting`);
  if (tryMark(mark)) {
    try {
      await start(folder, name);
    } finally {
      rmSync(mark, { force: true });
    }
    return;
  }
  const deadline = Date.now() + START_DEADLINE_MS;
  for (let starter = starterOf(mark); starter !== undefined; starter = starterOf(mark)) {
    if (!isAlive(starter) || Date.now() > deadline) rmSync(mark, { force: true });
    else await delay(LOOK_MS);
  }
}

/** Whether nobody starts a broker at this moment but this process. The mark is a link to nowhere with our pid. */
function tryMark(mark: string): boolean {
  try {
    symlinkSync(String(process.pid), mark);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

function starterOf(mark: string): number | undefined {
  try {
    return Number(readlinkSync(mark));
  } catch {
    return undefined;
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** In a session of its own, so that it survives whatever ends this process's group. Returns when a broker serves. */
async function start(folder: string, name: string): Promise<void> {
  // The broker runs in another working folder, where a relative path would name something else.
  const env: NodeJS.ProcessEnv = { ...process.env, PASEO_SSH_RUNTIME_DIR: folder };
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

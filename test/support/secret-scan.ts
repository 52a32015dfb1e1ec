import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";

/** Looks for a secret where none may be: command lines and environments of all processes, and files. */

/** Ids of processes that have this text in their command line or environment, and are not this one. */
function processesShowing(text: string): number[] {
  return processIds().filter(
    (pid) => pid !== process.pid && (read(pid, "cmdline") + read(pid, "environ")).includes(text),
  );
}

/** Files below a folder that hold this text. */
export function filesWith(text: string, folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path, { throwIfNoEntry: false })?.isFile() && readFileSync(path).includes(text));
}

/**
 * Watches all processes while something runs.
 * @param witness part of the command line of a process that has the secret; proves that the watch sees such processes
 */
export async function watchProcesses<T>(
  secret: string,
  witness: string,
  during: Promise<T>,
): Promise<{ result: T; exposed: number[]; witnessed: boolean }> {
  const exposed = new Set<number>();
  let witnessed = false;
  let over = false;
  const result = during.finally(() => {
    over = true;
  });
  while (!over) {
    for (const pid of processesShowing(secret)) exposed.add(pid);
    witnessed ||= processesShowing(witness).length > 0;
    await turn();
  }
  return { result: await result, exposed: [...exposed], witnessed };
}

function processIds(): number[] {
  return readdirSync("/proc").map(Number).filter(Number.isInteger);
}

function read(pid: number, file: "cmdline" | "environ"): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "latin1");
  } catch {
    // It has ended.
    return "";
  }
}

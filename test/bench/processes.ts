import { existsSync, readdirSync, readFileSync } from "node:fs";

/** Largest resident size that a process has had, in MiB (proc(5), VmHWM); Linux only. */
export function peakMemory(pid: number): number {
  const text = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(text)?.[1] ?? Number.NaN) / 1024;
}

/** Resident size of a process, in MiB; Linux only. */
export function residentMemory(pid: number): number {
  const text = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(text)?.[1] ?? Number.NaN) / 1024;
}

/** Pid of the agent that serves a root folder, or undefined when none ever did. */
export function agentPid(root: string): number | undefined {
  const folder = `${root}/run`;
  if (!existsSync(folder)) return undefined;
  const name = readdirSync(folder).find((entry) => entry.endsWith(".json"));
  return name === undefined ? undefined : JSON.parse(readFileSync(`${folder}/${name}`, "utf8")).pid;
}

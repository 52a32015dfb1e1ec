import { constants } from "node:os";
import { type HostArguments, rawOptions } from "../host-arguments.ts";
import { Examination, type Observer, Pointless } from "./examination.ts";
import { reachHost } from "./reach-host.ts";
import { Screen } from "./screen.ts";
import { useWorkspace } from "./use-workspace.ts";

export interface DoctorArguments extends HostArguments {
  json?: boolean;
}

const INTERRUPTIONS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
const SILENT: Observer = { begun: () => {}, ended: () => {} };

/**
 * `paseo-ssh-runtime doctor HOST`: takes every step from the options to the echo of a terminal, and says what it found
 * or what is wrong. The status is 1 when a step has failed. Nothing is left behind but what every operation leaves, the
 * files of the agent.
 *
 * @throws RuntimeError usage
 */
export async function examineHost(host: string | undefined, args: DoctorArguments): Promise<void> {
  const interrupted = new AbortController();
  const examination = new Examination(args.json === true ? SILENT : new Screen(process.stdout, process.env));
  for (const signal of INTERRUPTIONS) {
    process.once(signal, () => {
      process.exitCode = 128 + constants.signals[signal];
      interrupted.abort();
    });
  }
  const begunAt = performance.now();
  try {
    const { rawOptions: raw, options } = await reachHost(examination, () => rawOptions(host, args), interrupted.signal);
    await useWorkspace(examination, raw, options, interrupted.signal);
  } catch (error) {
    if (!(error instanceof Pointless)) throw error;
  }
  examination.finish();
  const { ok, results } = examination;
  if (args.json === true) {
    const milliseconds = Math.round(performance.now() - begunAt);
    console.log(JSON.stringify({ host: host ?? args.runtime ?? null, ok, milliseconds, steps: results }));
  }
  if (!ok) process.exitCode ??= 1;
}

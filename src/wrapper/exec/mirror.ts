/** Ends this process the way the workload ended. */

/** Milliseconds within which a signal to oneself takes effect; afterwards its shell status says the same. */
const SELF_SIGNAL_MS = 1000;

/** @param signal name of the signal that ended the workload, or null when it exited with `code` */
export function mirrorExit(code: number | null, signal: string | null): void {
  if (signal === null) {
    process.exit(code ?? 1);
  }
  const number = (process.getBuiltinModule("node:os").constants.signals as Record<string, number>)[signal];
  if (number === undefined) process.exit(1);
  // Node ignores SIGPIPE and handles others; a handler that comes and goes leaves the system's default behind.
  const ignore = () => {};
  try {
    process.removeAllListeners(signal);
    process.on(signal, ignore);
    process.off(signal, ignore);
  } catch {
    // KILL and STOP take no handler.
  }
  leaveNoCore();
  process.kill(process.pid, signal as NodeJS.Signals);
  setTimeout(() => process.exit(128 + number), SELF_SIGNAL_MS);
}

/** Some signals leave a core in the working folder, and one of this process says nothing about the workload. */
function leaveNoCore(): void {
  try {
    process.chdir("/proc/self");
  } catch {
    // Elsewhere than on Linux cores have a folder of their own, in which few may write.
  }
}

/** Ends this process the way the workload ended. */

/** Milliseconds within which a signal to oneself takes effect; afterwards its shell status says the same. */
const SELF_SIGNAL_MS = 1000;
/** What a shell adds to the number of a signal for its status. */
const FIRST_SIGNAL_STATUS = 128;

/** @param signal name of the signal that ended the workload, or null when it exited with `code` */
export function mirrorExit(code: number | null, signal: string | null): void {
  if (signal === null) {
    process.exit(code ?? 1);
  }
  const number = (process.getBuiltinModule("node:os").constants.signals as Record<string, number>)[signal];
  // A real-time signal, SIG34 and up: a parent that is a Node process would see such an end as exit code 0.
  if (number === undefined) process.exit(FIRST_SIGNAL_STATUS + (Number(signal.slice("SIG".length)) || 0));
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
  setTimeout(() => process.exit(FIRST_SIGNAL_STATUS + number), SELF_SIGNAL_MS);
}

/** Some signals leave a core in the working folder, and one of this process says nothing about the workload. */
function leaveNoCore(): void {
  try {
    process.chdir("/proc/self");
  } catch {
    // Elsewhere than on Linux cores have a folder of their own, in which few may write.
  }
}

import { constants } from "node:os";
import { RuntimeError } from "../src/wire/errors.ts";

/**
 * @param name with or without the SIG prefix, as kill(1) takes it
 * @returns the number of that signal on this system
 * @throws RuntimeError signal-unknown
 */
export function signalNumber(name: string): number {
  const full = name.startsWith("SIG") ? name : `SIG${name}`;
  const number = (constants.signals as Record<string, number>)[full];
  if (number === undefined) {
    throw new RuntimeError(
      "signal-unknown",
      `There is no signal named ${name} on the build host`,
      "Use a name such as SIGTERM",
    );
  }
  return number;
}

/** @returns its name with the prefix; `SIG` and the number for a real-time signal, which has none here */
export function signalName(number: number): string {
  return Object.entries(constants.signals).find(([, other]) => other === number)?.[0] ?? `SIG${number}`;
}

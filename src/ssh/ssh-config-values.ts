import { RuntimeError } from "../wire/errors.ts";

/** Values of ssh_config that mean something else to `ssh` than to us; docs/options.md lists the differences. */

const DEFAULT_KEEPALIVE_COUNT = 3;
/** The longest time that ssh_config may set; timers of Node take no more than three weeks. Seconds. */
const MAX_SECONDS = 24 * 3600;

/** ssh_config(5); what only warns in OpenSSH, a changed key under `no`, is refused here. */
export function hostKeyPolicyOf(value: string | undefined): "strict" | "accept-new" {
  return /^(?:accept-new|no|off|false)$/i.test(value ?? "") ? "accept-new" : "strict";
}

/**
 * A time as in sshd_config(5), "TIME FORMATS". ssh_config's zero and "none" say that there is no limit, and so does the
 * default; the runtime always has one.
 */
export function millisecondsOf(keyword: string, value: string | undefined): number | undefined {
  if (value === undefined || value.toLowerCase() === "none") return undefined;
  const units: Record<string, number> = { "": 1, s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 };
  if (!/^(?:\d{1,9}[smhdw]){0,5}\d{0,9}$/i.test(value)) throw badNumber(keyword, value, "Use a number of seconds");
  let seconds = 0;
  for (const [, count, unit] of value.matchAll(/(\d+)([smhdw]?)/gi))
    seconds += Number(count) * units[unit!.toLowerCase()]!;
  return seconds === 0 ? undefined : Math.min(seconds, MAX_SECONDS) * 1000;
}

/** Zero keeps OpenSSH from noticing a dead link; the runtime always notices. */
export function countOf(value: string | undefined): number {
  if (value === undefined) return DEFAULT_KEEPALIVE_COUNT;
  if (!/^\d{1,9}$/.test(value)) throw badNumber("ServerAliveCountMax", value, "Use a whole number");
  return Number(value) || DEFAULT_KEEPALIVE_COUNT;
}

export function badNumber(keyword: string, value: string, remedy: string): RuntimeError {
  return new RuntimeError("option-invalid", `ssh_config has ${keyword} ${value.slice(0, 20)}`, remedy);
}

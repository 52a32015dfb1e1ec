import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { RuntimeClient } from "./runtime.ts";

/** What `doctor --json` prints (docs/troubleshooting.md). */
export interface DoctorReport {
  host: string | null;
  ok: boolean;
  milliseconds: number;
  steps: {
    step: string;
    status: "ok" | "failed" | "skipped";
    milliseconds?: number;
    found?: Record<string, unknown>;
    error?: { code: string; cause: string; remedy: string };
  }[];
}

/** Has the doctor read a client's options from a config.json, as those of Paseo's. */
export function doctorArguments(client: RuntimeClient, changes: Record<string, unknown> = {}): string[] {
  const file = join(client.brokerFolder, `config-${randomBytes(4).toString("hex")}.json`);
  const options = { ...client.options, ...changes };
  writeFileSync(file, JSON.stringify({ version: 1, workspaceRuntimes: { runtime: { type: "command", options } } }));
  return ["doctor", "--config", file, "--runtime", "runtime"];
}

/** @throws Error when it prints anything else than one value, or its status does not fit it */
export async function doctorReport(
  client: RuntimeClient,
  changes: Record<string, unknown> = {},
): Promise<DoctorReport> {
  const { code, stdout, stderr } = await client.run([...doctorArguments(client, changes), "--json"]);
  if (stderr !== "") throw new Error(stderr);
  const report: DoctorReport = JSON.parse(stdout);
  if (code !== (report.ok ? 0 : 1)) throw new Error(`status ${code} for ${stdout}`);
  return report;
}

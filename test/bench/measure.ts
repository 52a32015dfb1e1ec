import { setTimeout as delay } from "node:timers/promises";

/** Repeated measurements and what is said about them. */

/**
 * Milliseconds between two measurements: the broker opens another spare channel 50 ms after one was taken, and the
 * kernel still puts the processes of a connection away. Neither belongs to what is measured next.
 */
const REST_MS = 100;

export interface Series {
  name: string;
  /** Milliseconds, or whatever the unit of the table is. */
  values: number[];
}

export function median(values: readonly number[]): number {
  return percentile(values, 0.5);
}

/** @param share 0 to 1 */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]!;
}

/**
 * Measures several things in turn, round after round, so that whatever else the machine does hits all of them alike.
 * @param rounds measured rounds, after one that is not
 */
export async function interleaved(cases: Record<string, () => Promise<unknown>>, rounds: number): Promise<Series[]> {
  const series = Object.keys(cases).map((name) => ({ name, values: [] as number[] }));
  for (let round = -1; round < rounds; round += 1) {
    for (const { name, values } of series) {
      await delay(REST_MS);
      const start = performance.now();
      await cases[name]!();
      if (round >= 0) values.push(performance.now() - start);
    }
  }
  return series;
}

/** A table in Markdown, aligned so that it can also be read as text. */
export function table(headers: string[], rows: string[][]): string {
  const all = [headers, ...rows];
  const widths = headers.map((_, column) => Math.max(...all.map((row) => row[column]!.length)));
  const line = (row: string[]) => `| ${row.map((cell, column) => cell.padEnd(widths[column]!)).join(" | ")} |`;
  return [line(headers), `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`, ...rows.map(line)].join("\n");
}

export function number(value: number, digits = 1): string {
  return Number.isFinite(value) ? value.toFixed(digits) : "n/a";
}

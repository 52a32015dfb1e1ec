import { oneLine } from "../../wire/errors.ts";
import type { Findings, Observer, Step, StepResult } from "./examination.ts";
import { STEPS } from "./examination.ts";

const STEP_WIDTH = Math.max(...STEPS.map((step) => step.length));
const DURATION_WIDTH = 10;
/** Takes away the line that says what is being done. */
const ERASE_LINE = "\r\x1b[K";

/** Shows each step as a line when it has ended; on a terminal also what is being done. */
export class Screen implements Observer {
  readonly #output: NodeJS.WriteStream;
  readonly #live: boolean;

  constructor(output: NodeJS.WriteStream, env: NodeJS.ProcessEnv) {
    this.#output = output;
    this.#live = output.isTTY === true && env.TERM !== "dumb";
  }

  begun(step: Step): void {
    if (this.#live) this.#output.write(`…       ${step}`);
  }

  ended(result: StepResult): void {
    if (this.#live) this.#output.write(ERASE_LINE);
    if (result.status === "skipped") {
      this.#line("skipped", result.step, "", "");
      return;
    }
    const { step, milliseconds } = result;
    const duration = `${milliseconds < 10 ? milliseconds.toFixed(1) : Math.round(milliseconds)} ms`;
    if (result.status === "ok") {
      this.#line("ok", step, duration, textOf(result.found));
      return;
    }
    const { code, cause, remedy } = result.error;
    this.#line("FAILED", step, duration, `${cause} [${code}]`);
    if (remedy !== "") this.#line("", "", "", `→ ${remedy}`);
  }

  #line(status: string, step: string, duration: string, text: string): void {
    const line = `${status.padEnd(7)} ${step.padEnd(STEP_WIDTH)} ${duration.padStart(DURATION_WIDTH)}  ${text}`;
    this.#output.write(`${line.trimEnd()}\n`);
  }
}

function textOf(found: Findings): string {
  const parts = Object.entries(found).map(([name, value]) => {
    const text = typeof value === "object" ? value.join(", ") || "none" : String(value);
    return `${name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)}: ${text}`;
  });
  // Some of it comes from the host.
  return oneLine(parts.join("; "));
}

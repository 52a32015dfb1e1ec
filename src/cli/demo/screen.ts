/** What the demo shows: plain text, with a little colour where it is a terminal. */

const BOLD = "1";
const DIM = "2";
const CYAN = "36";

export interface Timing {
  what: string;
  milliseconds: number;
}

export class Screen {
  readonly #output: NodeJS.WriteStream;
  readonly #coloured: boolean;
  readonly #timings: Timing[] = [];

  constructor(output: NodeJS.WriteStream, env: NodeJS.ProcessEnv) {
    this.#output = output;
    this.#coloured = output.isTTY === true && !env.NO_COLOR && env.TERM !== "dumb";
  }

  heading(text: string): void {
    this.#print(`\n${this.#colour(BOLD, text)}`);
  }

  text(text: string): void {
    this.#print(`  ${text}`);
  }

  /** One line of a descriptor: what is written to it, or what came from it. */
  descriptor(fd: number, text: string): void {
    this.#print(`  ${this.#colour(fd === 4 ? CYAN : DIM, `fd ${fd}`)}  ${text}`);
  }

  /** A step's duration, shown where it was measured and again in the table. */
  timing(what: string, milliseconds: number): void {
    this.#timings.push({ what, milliseconds });
    this.#print(this.#colour(DIM, `  ${formatDuration(milliseconds)}`));
  }

  table(title: string): void {
    this.heading(title);
    const width = Math.max(...this.#timings.map(({ what }) => what.length));
    for (const { what, milliseconds } of this.#timings) {
      this.#print(`  ${what.padEnd(width)}  ${formatDuration(milliseconds).padStart(8)}`);
    }
  }

  #print(line: string): void {
    this.#output.write(`${line}\n`);
  }

  #colour(code: string, text: string): string {
    return this.#coloured ? `\x1b[${code}m${text}\x1b[0m` : text;
  }
}

function formatDuration(milliseconds: number): string {
  return milliseconds < 10 ? `${milliseconds.toFixed(1)} ms` : `${Math.round(milliseconds)} ms`;
}

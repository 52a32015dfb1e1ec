/** What the demo shows: plain text, with a little colour where it is a terminal. */

const BOLD = "1";
const DIM = "2";
const CYAN = "36";

interface Timing {
  what: string;
  until?: string;
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

  /**
   * Shows durations where they were measured, and again in the table.
   * @param entries what took how many milliseconds; `what` is complete in itself, `until` fits behind the duration
   */
  timing(...entries: Timing[]): void {
    this.#timings.push(...entries);
    const texts = entries.map(({ until, milliseconds }) =>
      [formatDuration(milliseconds), until].filter((text) => text !== undefined).join(" "),
    );
    this.#print(this.#colour(DIM, `  ${texts.join(", ")}`));
  }

  /** @param more durations that were not shown before */
  table(title: string, ...more: Timing[]): void {
    this.heading(title);
    const rows = [...this.#timings, ...more].map(({ what, until, milliseconds }) => ({
      name: until === undefined ? what : `${what}, ${until}`,
      duration: formatDuration(milliseconds),
    }));
    const width = Math.max(...rows.map(({ name }) => name.length));
    for (const { name, duration } of rows) this.#print(`  ${name.padEnd(width)}  ${duration.padStart(8)}`);
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

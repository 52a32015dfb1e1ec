import { oneLine } from "../wire/errors.ts";

/** How much of what a host prints beside our lines is kept for an error message, in characters. */
const MAX_NOISE = 16 * 1024;

/** What a session prints that is not ours: an account's start-up files say anything, and a reason may be among it. */
export class Noise {
  #text = "";

  add(chunk: Buffer): void {
    this.#text = (this.#text + chunk.toString("utf8")).slice(-MAX_NOISE);
  }

  has(text: string): boolean {
    return this.#text.includes(text);
  }

  /** The last thing that was printed, since that is where a reason stands. */
  lastLine(): string {
    return oneLine(this.#text.trimEnd().split("\n").at(-1) ?? "").slice(0, 300);
  }
}

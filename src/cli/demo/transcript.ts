import { StringDecoder } from "node:string_decoder";
import { oneLine } from "../../wire/errors.ts";
import type { Exec, ProcessEvent } from "../consumer/index.ts";
import type { Screen } from "./screen.ts";

/**
 * Shows one execution as it happens: events of fd 4 and output of fd 1 in the order in which the wrapper wrote them. What
 * arrives on both within one turn of the event loop has lost its order, and the contract gives it back: `started` stands
 * before all output, `eof` behind it.
 */
export class Transcript {
  readonly #screen: Screen;
  readonly #decoder = new StringDecoder("utf8");
  /** Arrived in this turn. */
  #arrived: { rank: number; show: () => void }[] = [];
  #line = "";

  constructor(screen: Screen, exec: Exec) {
    this.#screen = screen;
    exec.onEvent = (event) => this.#arrive(rankOf(event), () => this.#showEvent(event));
    exec.onOutput = (bytes) => this.#arrive(1, () => this.#showOutput(this.#decoder.write(bytes)));
  }

  /** Shows a line that was written to the wrapper. */
  sent(fd: number, line: string): void {
    this.flush();
    this.#screen.descriptor(fd, line);
  }

  /** Shows everything that has arrived. */
  flush(): void {
    const arrived = this.#arrived.sort((left, right) => left.rank - right.rank);
    this.#arrived = [];
    for (const { show } of arrived) show();
  }

  #arrive(rank: number, show: () => void): void {
    if (this.#arrived.length === 0) setImmediate(() => this.flush());
    this.#arrived.push({ rank, show });
  }

  #showEvent(event: ProcessEvent): void {
    if (event.type === "eof" && this.#line !== "") this.#showOutput("\n");
    this.#screen.descriptor(4, JSON.stringify(event));
  }

  #showOutput(text: string): void {
    const lines = (this.#line + text).split("\n");
    this.#line = lines.pop()!;
    for (const line of lines) this.#screen.descriptor(1, oneLine(line));
  }
}

function rankOf({ type }: ProcessEvent): number {
  return type === "started" ? 0 : type === "resized" ? 1 : 2;
}

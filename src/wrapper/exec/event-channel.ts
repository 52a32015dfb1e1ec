import { closeSync } from "node:fs";
import type { CommandRuntimeProcessEvent } from "../../contract/process.ts";
import { writeAll } from "../synchronous-io.ts";

/**
 * Descriptor 4: the events that Paseo reads. Whatever happens, nothing follows `exit` or `error`. The objects below
 * have their keys in the order of the contract, so that their JSON is the exact line.
 */
export class EventChannel {
  readonly #fd: number;
  #finished = false;

  constructor(fd: number) {
    this.#fd = fd;
  }

  started(): void {
    this.#write({ type: "started", protocolVersion: 1 });
  }

  resized(id: number): void {
    this.#write({ type: "resized", protocolVersion: 1, id });
  }

  eof(): void {
    this.#write({ type: "eof", protocolVersion: 1 });
  }

  exit(code: number | null, signal: string | null): void {
    this.#write({ type: "exit", protocolVersion: 1, code, signal });
    this.#finish();
  }

  error(message: string): void {
    this.#write({ type: "error", protocolVersion: 1, message });
    this.#finish();
  }

  #write(event: CommandRuntimeProcessEvent): void {
    if (!this.#finished) writeAll(this.#fd, `${JSON.stringify(event)}\n`);
  }

  #finish(): void {
    if (this.#finished) return;
    this.#finished = true;
    closeSync(this.#fd);
  }
}

import { Socket } from "node:net";
import { acceptsControl } from "../../contract/accept.ts";
import { type CommandRuntimeMessageDecoder, createMessageDecoder } from "../../contract/message-decoder.ts";
import type { CommandRuntimeControl, CommandRuntimeSpawnEnvelope } from "../../contract/process.ts";
import { type ErrorCode, RuntimeError } from "../../wire/errors.ts";
import { loadBundle } from "../bundles.ts";
import { readSome, tryRead } from "../synchronous-io.ts";
import { isPipe } from "./descriptor.ts";

/** A spawn line carries a whole environment and argv; the kernel would not take more than this, in bytes. */
const MAX_SPAWN_LINE_BYTES = 8 * 1024 * 1024;
const CHUNK_BYTES = 64 * 1024;

export type TerminalControl = Exclude<CommandRuntimeControl, CommandRuntimeSpawnEnvelope>;

/**
 * Descriptor 3: one spawn line, then nothing (pipes) or resize and signal lines (terminal). An invalid line changes
 * nothing and fails the execution.
 */
export class ControlChannel {
  readonly #fd: number;
  readonly #decoder: CommandRuntimeMessageDecoder<CommandRuntimeControl>;
  readonly #buffer = Buffer.allocUnsafe(CHUNK_BYTES);
  #pending: CommandRuntimeControl[] = [];
  #socket: Socket | undefined;
  #paused = false;
  #ended = false;

  constructor(fd: number) {
    this.#fd = fd;
    this.#decoder = createMessageDecoder(parseControl, {
      maxFrameBytes: MAX_SPAWN_LINE_BYTES,
      code: "control-invalid",
    });
  }

  /**
   * Waits for the spawn line. Nothing else has been set up by then, so the wait may block.
   * @throws RuntimeError spawn-invalid
   */
  readSpawn(): CommandRuntimeSpawnEnvelope {
    try {
      while (this.#pending.length === 0) {
        const chunk = readSome(this.#fd);
        if (chunk.length === 0) {
          this.#ended = true;
          this.#decoder.finish();
          throw new RuntimeError(
            "spawn-invalid",
            "Descriptor 3 ended without a spawn line",
            "Write one spawn envelope to it",
          );
        }
        this.#pending.push(...this.#decoder.push(chunk));
      }
    } catch (error) {
      throw asSpawnError(error);
    }
    const first = this.#pending.shift()!;
    if (first.type !== "spawn")
      throw asSpawnError(new Error(`the first line on descriptor 3 is a ${first.type}, not a spawn`));
    return first;
  }

  /**
   * Delivers controls from now on. What has already arrived is delivered before this returns.
   * @param onControl called in order, once for each line
   * @param onInvalid called once, with what is wrong; nothing is delivered after it
   */
  watch(
    mode: "pipes" | "pty",
    onControl: (control: TerminalControl) => void,
    onInvalid: (error: RuntimeError) => void,
  ): void {
    this.#deliver = (control) => {
      if (control.type === "spawn")
        throw new RuntimeError(
          "control-invalid",
          "A second spawn line came on descriptor 3",
          "Start another exec for it",
        );
      if (mode === "pipes")
        throw new RuntimeError(
          "control-invalid",
          `A ${control.type} line came for an execution with pipes`,
          "Close descriptor 3 after the spawn line",
        );
      onControl(control);
    };
    this.#fail = onInvalid;
    this.#take([]);
    if (this.#ended || this.#failed) return;
    if (isPipe(this.#fd)) {
      this.#socket = new Socket({ fd: this.#fd, readable: true, writable: false });
      this.#socket.on("data", (chunk: Buffer) => this.#receive(chunk));
      this.#socket.on("end", () => this.#end());
      this.#socket.on("error", () => this.#end());
    } else {
      for (let chunk = readSome(this.#fd); chunk.length > 0; chunk = readSome(this.#fd)) this.#receive(chunk);
      this.#end();
    }
  }

  /**
   * Takes what is in the descriptor right now. Input that the consumer wrote after a resize must come after it, and
   * the two arrive on different descriptors: whoever has read input asks here before passing it on.
   */
  takeArrived(): void {
    if (this.#socket === undefined || this.#ended || this.#failed) return;
    while (!this.#paused) {
      const count = tryRead(this.#fd, this.#buffer);
      if (count === undefined || count === 0) return;
      this.#receive(Buffer.from(this.#buffer.subarray(0, count)));
    }
  }

  /** Something stood behind the spawn line that has been read together with it. */
  get begun(): boolean {
    return this.#pending.length > 0;
  }

  /** Controls may be there that nobody has read. */
  get paused(): boolean {
    return this.#paused;
  }

  /** Reads no more until `resume`; what has been read is still delivered. */
  pause(): void {
    this.#paused = true;
    this.#socket?.pause();
  }

  resume(): void {
    this.#paused = false;
    this.#socket?.resume();
    this.takeArrived();
  }

  close(): void {
    this.#socket?.destroy();
  }

  #deliver: (control: CommandRuntimeControl) => void = () => {};
  #fail: (error: RuntimeError) => void = () => {};
  #failed = false;

  #receive(chunk: Buffer): void {
    try {
      this.#take(this.#decoder.push(chunk));
    } catch (error) {
      this.#failWith(error);
    }
  }

  #take(controls: CommandRuntimeControl[]): void {
    this.#pending.push(...controls);
    try {
      for (
        let control = this.#pending.shift();
        control !== undefined && !this.#failed;
        control = this.#pending.shift()
      ) {
        this.#deliver(control);
      }
    } catch (error) {
      this.#failWith(error);
    }
  }

  #end(): void {
    if (this.#ended) return;
    this.#ended = true;
    try {
      this.#decoder.finish();
    } catch (error) {
      this.#failWith(error);
    }
  }

  #failWith(error: unknown): void {
    if (this.#failed) return;
    this.#failed = true;
    this.#fail(RuntimeError.from(error));
  }
}

function parseControl(value: unknown, code: ErrorCode): CommandRuntimeControl {
  if (acceptsControl(value)) return value;
  const { parseCommandRuntimeMessage, CommandRuntimeControlSchema } = loadBundle("contract");
  return parseCommandRuntimeMessage(CommandRuntimeControlSchema, value, code);
}

function asSpawnError(error: unknown): RuntimeError {
  if (error instanceof RuntimeError && error.code !== "control-invalid") return error;
  return new RuntimeError(
    "spawn-invalid",
    `The spawn line is invalid: ${(error as Error).message}`,
    "Write one spawn envelope of protocol version 1 to descriptor 3",
  );
}

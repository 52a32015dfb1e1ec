import { readSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";
import { ReadStream } from "node:tty";
import { RuntimeError } from "../src/wire/errors.ts";
import { requireExecutable } from "./executable.ts";
import { signalName } from "./signals.ts";
import type { LaunchSpec, OutputName, Workload, WorkloadEvents } from "./workload.ts";

/**
 * Starts a process on a terminal, through the native part of node-pty. Its JavaScript part is not used: it adds PWD
 * and TERM to an environment that must stay exact, decodes output, loses the tail of a fast program's output, and
 * writes to a full terminal in a busy loop.
 */

interface NativePty {
  fork(
    file: string,
    args: string[],
    env: string[],
    cwd: string,
    cols: number,
    rows: number,
    uid: number,
    gid: number,
    useUtf8: boolean,
    helperPath: string,
    onExit: (code: number, signal: number) => void,
  ): { fd: number; pid: number; pty: string };
  resize(fd: number, cols: number, rows: number): void;
}

/** Rows and columns are 16-bit in the kernel (ioctl_tty(2), struct winsize). */
const MAX_SIZE = 65_535;
/** First and longest wait, in ms, before writing again to a terminal whose input buffer is full. */
const RETRY_MIN_MS = 1;
const RETRY_MAX_MS = 16;
const DRAIN_CHUNK_BYTES = 64 * 1024;

let native: NativePty | undefined;

/** @throws RuntimeError terminal-unavailable when this host has no usable pty.node */
function loadNative(nativePath: string | undefined): NativePty {
  if (native !== undefined) return native;
  if (nativePath === undefined) {
    throw new RuntimeError(
      "terminal-unavailable",
      `Terminals are not available on this build host (${process.platform} ${process.arch})`,
      "Run the command with pipes, or use a host with glibc or macOS",
    );
  }
  try {
    native = require(nativePath) as NativePty;
    return native;
  } catch (error) {
    throw notLoaded((error as Error).message);
  }
}

/** @param reason what dlopen(3) said */
export function notLoaded(reason: string): RuntimeError {
  return new RuntimeError(
    "terminal-unavailable",
    `The terminal module could not be loaded on the build host (${reason})`,
    // "version `GLIBC_2.28' not found", "version `GLIBCXX_3.4.21' not found" (ld.so(8))
    /version .GLIBC/.test(reason)
      ? "The C library there is too old for it: run the command with pipes, or use a newer system"
      : "Run the command with pipes, and check that the runtime's root folder is not mounted noexec",
  );
}

/**
 * @param nativePath absolute path of pty.node for this platform
 * @throws RuntimeError terminal-unavailable, spawn-failed
 */
export function launchWithTerminal(
  spec: LaunchSpec,
  size: { rows: number; cols: number },
  nativePath: string | undefined,
  events: WorkloadEvents,
): Workload {
  const pty = loadNative(nativePath);
  checkSize(size.rows, size.cols);
  requireExecutable(spec);
  const env = Object.entries(spec.env).map(([name, value]) => `${name}=${value}`);
  const helper = nativePath === undefined ? "" : join(dirname(nativePath), "spawn-helper");
  let onExit: (code: number, signal: number) => void = () => {};
  let terminal: { fd: number; pid: number };
  try {
    terminal = pty.fork(
      argumentZero(spec),
      spec.argv.slice(1),
      env,
      spec.cwd,
      size.cols,
      size.rows,
      -1,
      -1,
      true,
      helper,
      (code, signal) => onExit(code, signal),
    );
  } catch (error) {
    throw new RuntimeError(
      "spawn-failed",
      `The system refused to start a terminal (${(error as Error).message})`,
      "Try again",
    );
  }
  const workload = new TerminalWorkload(pty, terminal, events);
  onExit = (code, signal) => {
    const name = signal === 0 ? null : signalName(signal);
    events.onExit(name === null ? { code, signal: null } : { code: null, signal: name });
  };
  return workload;
}

/**
 * node-pty's child looks its program up by execvp(3) under the name that becomes argv[0]. That finds the same program as
 * we did, except for a bare name without a PATH.
 */
function argumentZero({ argv, env, program }: LaunchSpec): string {
  const name = argv[0]!;
  return name.includes("/") || env.PATH !== undefined ? name : program;
}

/** @throws RuntimeError control-invalid */
export function checkSize(rows: number, cols: number): void {
  if (rows < 1 || cols < 1 || rows > MAX_SIZE || cols > MAX_SIZE) {
    throw new RuntimeError(
      "control-invalid",
      `A terminal cannot have ${rows} rows and ${cols} columns`,
      `Use 1 to ${MAX_SIZE}`,
    );
  }
}

class TerminalWorkload implements Workload {
  readonly outputs = ["stdout"] as const;
  readonly pid: number;
  readonly #pty: NativePty;
  readonly #fd: number;
  readonly #master: ReadStream;
  readonly #events: WorkloadEvents;
  #input: { bytes: Buffer; onWritten: () => void }[] = [];
  #retryTimer: NodeJS.Timeout | undefined;
  #retryMs = RETRY_MIN_MS;
  #closed = false;
  #draining = false;

  constructor(pty: NativePty, terminal: { fd: number; pid: number }, events: WorkloadEvents) {
    this.pid = terminal.pid;
    this.#pty = pty;
    this.#fd = terminal.fd;
    this.#events = events;
    this.#master = new ReadStream(terminal.fd);
    this.#master.on("data", (bytes: Buffer) => this.#output(bytes));
    this.#master.on("end", () => this.#drainRest());
    // EIO is how Linux says that the last process has closed the terminal, and that nothing is left in it. The descriptor
    // is closed by now, and its number may be another one's.
    this.#master.on("error", () => {});
    this.#master.once("close", () => {
      this.#closed = true;
      this.#dropInput();
      events.onOutputEnd("stdout");
    });
    this.#master.resume();
  }

  write(bytes: Buffer, onWritten: () => void): void {
    if (this.#closed) {
      onWritten();
      return;
    }
    this.#input.push({ bytes, onWritten });
    this.#writeNext();
  }

  /** A terminal has no end of input; a program sees one when the user types its EOF character. */
  endInput(): void {}

  pauseOutput(): void {
    this.#master.pause();
  }

  resumeOutput(): void {
    this.#master.resume();
  }

  closeOutput(): void {
    this.#master.destroy();
  }

  drainOutput(_output: OutputName): void {
    this.#draining = true;
    this.#master.resume();
  }

  resize(rows: number, cols: number): void {
    checkSize(rows, cols);
    if (!this.#closed) this.#pty.resize(this.#fd, cols, rows);
  }

  #output(bytes: Buffer): void {
    if (!this.#draining) this.#events.onOutput("stdout", bytes);
  }

  /**
   * libuv takes a hang-up after a partial read for the end, with bytes still in the terminal; they are read here,
   * before the stream closes the descriptor. Measured without this: up to 1 of 2 runs lost bytes.
   */
  #drainRest(): void {
    if (this.#closed) return;
    const chunk = Buffer.allocUnsafe(DRAIN_CHUNK_BYTES);
    try {
      for (;;) {
        const count = readSync(this.#fd, chunk);
        if (count === 0) return;
        this.#output(Buffer.from(chunk.subarray(0, count)));
      }
    } catch {
      // EIO: everything has been read. EAGAIN: somebody still holds the terminal, and it is empty.
    }
  }

  /**
   * The input buffer of a terminal holds about 4 KiB and nothing tells when it has room, so a full one is tried again
   * after a short, growing wait. The descriptor does not block, so a program that reads slowly holds up nobody else.
   */
  #writeNext(): void {
    if (this.#retryTimer !== undefined) return;
    let next = this.#input[0];
    while (next !== undefined && !this.#closed) {
      let written: number;
      try {
        written = writeSync(this.#fd, next.bytes);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === "EAGAIN") this.#retryLater();
        else this.#dropInput();
        return;
      }
      this.#retryMs = RETRY_MIN_MS;
      if (written < next.bytes.length) {
        next.bytes = next.bytes.subarray(written);
      } else {
        this.#input.shift();
        next.onWritten();
        next = this.#input[0];
      }
    }
  }

  #retryLater(): void {
    this.#retryTimer = setTimeout(() => {
      this.#retryTimer = undefined;
      this.#writeNext();
    }, this.#retryMs);
    this.#retryMs = Math.min(this.#retryMs * 2, RETRY_MAX_MS);
  }

  #dropInput(): void {
    const dropped = this.#input;
    this.#input = [];
    for (const { onWritten } of dropped) onWritten();
  }
}

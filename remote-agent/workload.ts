/**
 * A process started for an execution, with pipes or with a terminal. It knows nothing of the wire: bytes go in with
 * `write`, come out through `onOutput`, and `pauseOutput` is how a slow reader slows the process down.
 */

export type OutputName = "stdout" | "stderr";

export interface Exit {
  code: number | null;
  signal: string | null;
}

export interface WorkloadEvents {
  onOutput(output: OutputName, bytes: Buffer): void;
  /** No more bytes will come from this output. */
  onOutputEnd(output: OutputName): void;
  /** The process has ended; output may still follow. */
  onExit(exit: Exit): void;
  /** The process reads its standard input no more. */
  onInputClosed(): void;
}

export interface Workload {
  /** Leader of its own session and process group. */
  readonly pid: number;
  /** Outputs that this kind of workload has. */
  readonly outputs: readonly OutputName[];
  /** @param onWritten called when the operating system has taken the bytes, or nobody ever will */
  write(bytes: Buffer, onWritten: () => void): void;
  endInput(): void;
  pauseOutput(output: OutputName): void;
  resumeOutput(output: OutputName): void;
  /** Nobody wants this output: the process gets SIGPIPE or EIO when it writes again. */
  closeOutput(output: OutputName): void;
  /** Gives an output up without closing it: what holds it may go on writing into the void, unharmed. */
  drainOutput(output: OutputName): void;
  /** Only for terminals. */
  resize(rows: number, cols: number): void;
}

export interface LaunchSpec {
  /** Absolute path of the program. */
  program: string;
  /** argv as the program sees it; the first entry need not be the path. */
  argv: readonly string[];
  /** Absolute. */
  cwd: string;
  env: Readonly<Record<string, string>>;
}

import { type ChildProcess, spawn } from "node:child_process";
import type { Readable } from "node:stream";
import { RuntimeError } from "../src/wire/errors.ts";
import { executionRefused } from "./executable.ts";
import { signalThatEnds } from "./processes.ts";
import { signalName } from "./signals.ts";
import type { Exit, LaunchSpec, OutputName, Workload, WorkloadEvents } from "./workload.ts";

/**
 * Starts a process with three pipes, as leader of a new session.
 * @throws RuntimeError spawn-failed when the kernel refuses to execute it
 */
export function launchWithPipes(spec: LaunchSpec, events: WorkloadEvents): Workload {
  let child: ChildProcess;
  try {
    child = spawn(spec.program, spec.argv.slice(1), {
      argv0: spec.argv[0],
      cwd: spec.cwd,
      env: spec.env,
      detached: true,
      stdio: ["pipe", "pipe", "pipe"],
    });
  } catch (error) {
    throw executionRefused(spec, (error as NodeJS.ErrnoException).code);
  }
  if (child.pid !== undefined) return new PipesWorkload(child, child.pid, events);
  // Some failures Node reports later, as an event; the reason is in it, but the caller needs an answer now.
  child.on("error", () => {});
  throw executionRefused(spec, undefined);
}

class PipesWorkload implements Workload {
  readonly outputs = ["stdout", "stderr"] as const;
  readonly pid: number;
  readonly #child: ChildProcess;
  readonly #draining = new Set<OutputName>();
  /** A signal that was seen to end the process. */
  #seenSignal: number | undefined;

  constructor(child: ChildProcess, pid: number, events: WorkloadEvents) {
    this.pid = pid;
    this.#child = child;
    for (const output of this.outputs) {
      const stream = child[output]!;
      stream.on("data", (bytes: Buffer) => {
        if (!this.#draining.has(output)) events.onOutput(output, bytes);
      });
      stream.on("error", () => {});
      stream.once("end", () => this.#lookAtEnding());
      stream.once("close", () => events.onOutputEnd(output));
    }
    child.stdin!.on("error", () => events.onInputClosed());
    child.on("error", () => {});
    child.once("exit", (code, signal) => events.onExit(this.#exitOf(code, signal)));
  }

  write(bytes: Buffer, onWritten: () => void): void {
    const stdin = this.#child.stdin!;
    if (stdin.destroyed || stdin.writableEnded) onWritten();
    else stdin.write(bytes, () => onWritten());
  }

  endInput(): void {
    this.#child.stdin!.end();
  }

  pauseOutput(output: OutputName): void {
    this.#stream(output).pause();
  }

  resumeOutput(output: OutputName): void {
    this.#stream(output).resume();
  }

  closeOutput(output: OutputName): void {
    this.#stream(output).destroy();
  }

  drainOutput(output: OutputName): void {
    this.#draining.add(output);
    this.#stream(output).resume();
  }

  resize(): void {
    throw new RuntimeError(
      "control-invalid",
      "An execution with pipes has no terminal to resize",
      "Start it with a pty",
    );
  }

  /**
   * The end of an output is handled before libuv reaps the process whose end it is. Only the end of another process, for
   * which libuv looks at all of its children, may have come in between.
   */
  #lookAtEnding(): void {
    const { exitCode, signalCode } = this.#child;
    if (exitCode === null && signalCode === null) this.#seenSignal ??= signalThatEnds(this.pid);
  }

  #exitOf(code: number | null, signal: string | null): Exit {
    if (code !== 0 || this.#seenSignal === undefined) return { code, signal };
    return { code: null, signal: signalName(this.#seenSignal) };
  }

  #stream(output: OutputName): Readable {
    return this.#child[output]!;
  }
}

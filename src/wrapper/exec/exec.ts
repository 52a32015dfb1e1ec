import type { Readable } from "node:stream";
import { RuntimeError } from "../../wire/errors.ts";
import { createContext } from "../context.ts";
import { findHelper, workspaceShape } from "../helper.ts";
import { newSession } from "../session.ts";
import { writeAll } from "../synchronous-io.ts";
import { type ByteSink, endUnopened, openByteSink } from "./byte-sink.ts";
import { closeByteSource, openByteSource } from "./byte-source.ts";
import { ControlChannel, type TerminalControl } from "./control-channel.ts";
import { EventChannel } from "./event-channel.ts";
import { ExecutionClient, type ExecutionEvents, type OutputName } from "./execution-client.ts";
import { mirrorExit } from "./mirror.ts";

const INPUT_FD = 0;
const OUTPUT_FDS: Record<OutputName, number> = { stdout: 1, stderr: 2 };
const CONTROL_FD = 3;
const EVENT_FD = 4;
/** A status that few programs use, so that a failure of this runtime is told apart from one of the workload. */
const FAILURE_STATUS = 125;
/** Signals that reach the wrapper and belong to the workload (contract, "Exec file descriptors"). */
const FORWARDED_SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** The contract's exec: joins descriptors 0 to 4 to an execution on the host, and ends as the workload ended. */
export async function exec(workspaceId: string): Promise<void> {
  const eventChannel = new EventChannel(EVENT_FD);
  try {
    const controlChannel = new ControlChannel(CONTROL_FD);
    const session = new ExecSession(workspaceId, controlChannel, eventChannel);
    await session.run();
  } catch (error) {
    fail(eventChannel, RuntimeError.from(error));
  }
}

function fail(eventChannel: EventChannel, error: RuntimeError): never {
  try {
    eventChannel.error(error.toLine());
  } catch {
    // Nobody reads events; the status still tells.
  }
  try {
    writeAll(2, `${error.toLine()}\n`);
  } catch {
    // Nor errors.
  }
  process.exit(FAILURE_STATUS);
}

class ExecSession implements ExecutionEvents {
  readonly #controlChannel: ControlChannel;
  readonly #eventChannel: EventChannel;
  readonly #client: ExecutionClient;
  readonly #mode: "pipes" | "pty";
  /** Opened with the first byte: most commands of Paseo write to one of them at most. */
  readonly #sinks: Partial<Record<OutputName, ByteSink>> = {};
  #input: Readable | undefined;
  /** Input that has been read, waiting for the resizes before it to be applied. */
  #heldInput: Buffer[] = [];
  #inputEnded = false;
  #unansweredResizes = 0;

  constructor(workspaceId: string, controlChannel: ControlChannel, eventChannel: EventChannel) {
    const spawn = controlChannel.readSpawn();
    const context = createContext(spawn.options);
    const { runtimeInstanceId, execId, argv, cwd, env, stdio } = spawn;
    checkWords([...argv, cwd ?? "", (stdio.kind === "pty" && stdio.term) || ""]);
    checkEnvironment(env);
    this.#controlChannel = controlChannel;
    this.#eventChannel = eventChannel;
    this.#mode = stdio.kind;
    this.#client = new ExecutionClient(
      context,
      {
        op: "exec",
        session: newSession(),
        workspaceId,
        runtimeInstanceId,
        execId,
        argv,
        ...(cwd === undefined ? {} : { cwd }),
        env,
        stdio,
        ...workspaceShape(context.options, findHelper(context.options)),
        reconnectWindowMs: context.options.reconnectWindowMs,
      },
      this,
    );
  }

  async run(): Promise<void> {
    // What has already arrived comes first: a resize leaves with the request, so that the window has its size from the
    // first byte, and an invalid line keeps it from leaving at all.
    const begun = this.#mode === "pty" || this.#controlChannel.begun;
    if (begun) this.#watchControls();
    const run = this.#client.run();
    // The request leaves first, in this turn of the loop: what follows happens while it is on its way.
    setImmediate(() => {
      if (!begun) this.#watchControls();
      this.#listen();
    });
    await run;
  }

  #watchControls(): void {
    this.#controlChannel.watch(
      this.#mode,
      (control) => this.#onControl(control),
      (error) => this.onFailed(error),
    );
  }

  #listen(): void {
    for (const signal of FORWARDED_SIGNALS) process.on(signal, () => this.#client.control({ type: "signal", signal }));
    this.#input = openByteSource(INPUT_FD);
    this.#input.on("data", (chunk: Buffer) => this.#onInput(chunk));
    this.#input.once("end", () => this.#onInputEnd());
    this.#input.once("error", () => this.#onInputEnd());
  }

  onStarted(): void {
    this.#eventChannel.started();
  }

  onResized(id: number): void {
    this.#eventChannel.resized(id);
    this.#unansweredResizes -= 1;
    this.#releaseInput();
  }

  onOutput(output: OutputName, bytes: Buffer): void {
    this.#sink(output).write(bytes, () => this.#client.consumed(output, bytes.length));
  }

  /** A terminal has no second output, and descriptor 2 is for this runtime's own words then. */
  onOutputEnd(output: OutputName): void {
    if (this.#mode === "pty" && output === "stderr") return;
    const sink = this.#sinks[output];
    // When the command itself has ended too, this process is about to, and everything is closed by that.
    setImmediate(() => (sink === undefined ? endUnopened(OUTPUT_FDS[output]) : sink.end()));
  }

  onExit(code: number | null, signal: string | null): void {
    this.#eventChannel.eof();
    this.#eventChannel.exit(code, signal);
    mirrorExit(code, signal);
  }

  onFailed(error: RuntimeError): void {
    fail(this.#eventChannel, error);
  }

  onInputWritable(): void {
    this.#releaseInput();
  }

  onInputRefused(): void {
    this.#heldInput = [];
    if (this.#input !== undefined) closeByteSource(this.#input, INPUT_FD);
  }

  #onControl(control: TerminalControl): void {
    if (control.type === "resize") {
      this.#unansweredResizes += 1;
      this.#client.control({ type: "resize", id: control.id, rows: control.rows, cols: control.cols });
    } else {
      this.#client.control({ type: "signal", signal: control.signal });
    }
    if (this.#client.controlsFull) this.#controlChannel.pause();
  }

  onControlsAcknowledged(): void {
    if (!this.#controlChannel.paused || this.#client.controlsFull) return;
    this.#controlChannel.resume();
    this.#releaseInput();
  }

  #onInput(chunk: Buffer): void {
    this.#controlChannel.takeArrived();
    this.#heldInput.push(chunk);
    this.#releaseInput();
  }

  #onInputEnd(): void {
    this.#inputEnded = true;
    this.#releaseInput();
  }

  /** Passes held input on as far as resizes and the window allow, and reads more only when none is held. */
  #releaseInput(): void {
    const early = this.#unansweredResizes > 0 || this.#controlChannel.paused;
    while (this.#heldInput.length > 0 && !early && !this.#client.inputFull) {
      this.#client.writeInput(this.#heldInput.shift()!);
    }
    if (this.#heldInput.length > 0 || early || this.#client.inputFull) this.#input?.pause();
    else if (this.#inputEnded) this.#client.endInput();
    else this.#input?.resume();
  }

  #sink(output: OutputName): ByteSink {
    this.#sinks[output] ??= openByteSink(OUTPUT_FDS[output], () => this.#client.refuseOutput(output));
    return this.#sinks[output];
  }
}

/**
 * What cannot be carried exactly is refused rather than cut or changed: for the kernel a word ends at its first NUL, and
 * half of a character that takes two units of UTF-16, which JSON can carry, has no bytes.
 */
const UNCARRIED = /\0|\p{Surrogate}/u;

/** @throws RuntimeError spawn-invalid */
function checkWords(words: readonly string[]): void {
  if (!words.some((word) => UNCARRIED.test(word))) return;
  throw new RuntimeError(
    "spawn-invalid",
    "A word of argv, cwd, or the name of the terminal contains a NUL or half of a character (a lone surrogate)",
    "Remove it",
  );
}

/**
 * The same for variables; a name that is empty or has a "=" does not exist either.
 * @throws RuntimeError spawn-invalid
 */
function checkEnvironment(env: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(env)) {
    if (name === "" || name.includes("=") || UNCARRIED.test(name) || UNCARRIED.test(value)) {
      throw new RuntimeError(
        "spawn-invalid",
        `The environment variable ${JSON.stringify(name)} cannot exist`,
        "Remove it from env",
      );
    }
  }
}

import type { ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import type { Readable, Writable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { type Installation, spawnWrapper } from "./operation.ts";

export interface SpawnOptions {
  argv: string[];
  cwd?: string;
  env?: Record<string, string>;
  stdio?: object;
  execId?: string;
  purpose?: { kind: string };
  /** Replaces the whole spawn line. */
  rawLine?: string;
  /** false: somebody else reads fd 1. */
  collectOutput?: boolean;
  /** false: somebody else reads fd 2. */
  collectErrors?: boolean;
  /** Descriptors 0 to 2, when they are not pipes of this process. */
  descriptors?: ["pipe" | number, "pipe" | number, "pipe" | number];
}

/** One line of descriptor 4. */
export type ProcessEvent = Record<string, unknown> & { type: string };

export interface ExecResult {
  code: number | null;
  signal: NodeJS.Signals | null;
  stdout: Buffer;
  stderr: Buffer;
  events: ProcessEvent[];
}

const NOTHING = Promise.resolve(Buffer.alloc(0));

/** One running exec wrapper with its five descriptors. */
export class Exec {
  readonly child: ChildProcess;
  readonly execId: string;
  readonly events: ProcessEvent[] = [];
  readonly #stdout: Promise<Buffer>;
  readonly #stderr: Promise<Buffer>;
  readonly #closed: Promise<[number | null, NodeJS.Signals | null]>;
  readonly #waiting = new Set<() => void>();
  /** What has come on fd 1 so far, one character per byte. */
  output = "";
  /** Called for each event and each piece of fd 1 as they arrive. */
  onEvent: (event: ProcessEvent) => void = () => {};
  onOutput: (bytes: Buffer) => void = () => {};

  constructor(installation: Installation, workspaceId: string, options: SpawnOptions) {
    this.execId = options.execId ?? randomBytes(16).toString("hex");
    const args = ["exec", "--workspace-id", workspaceId];
    this.child = spawnWrapper(installation, args, [
      ...(options.descriptors ?? ["pipe", "pipe", "pipe"]),
      "pipe",
      "pipe",
    ]);
    this.#closed = once(this.child, "close") as Promise<[number | null, NodeJS.Signals | null]>;
    for (const stream of [this.child.stdin, this.control]) stream?.on("error", () => {});
    const { stdout, stderr } = this.child;
    this.#stdout = stdout === null || options.collectOutput === false ? NOTHING : this.#collectOutput(stdout);
    this.#stderr = stderr === null || options.collectErrors === false ? NOTHING : buffer(stderr);
    this.#readEvents(this.child.stdio[4] as Readable);
    const line = options.rawLine ?? `${JSON.stringify(spawnEnvelope(installation, this.execId, options))}\n`;
    if ((options.stdio as { kind?: string } | undefined)?.kind === "pty") this.control.write(line);
    else this.control.end(line);
  }

  get stdin(): Writable {
    return this.child.stdin!;
  }

  get control(): Writable {
    return this.child.stdio[3] as Writable;
  }

  /** Waits for the first event that satisfies the condition. @throws Error when the wrapper ends before */
  async event(matches: (event: ProcessEvent) => boolean): Promise<ProcessEvent> {
    await this.until(() => this.events.some(matches));
    return this.events.find(matches)!;
  }

  started(): Promise<ProcessEvent> {
    return this.event((event) => event.type === "started");
  }

  /** Waits until fd 1 has brought this text. */
  async outputContains(text: string): Promise<void> {
    await this.until(() => this.output.includes(text));
  }

  /** Waits until a condition about events and output holds. @throws Error when the wrapper ends before */
  async until(condition: () => boolean): Promise<void> {
    let ended = false;
    void this.#closed.then(() => {
      ended = true;
      this.#wake();
    });
    while (!condition()) {
      if (ended)
        throw new Error(
          `the wrapper ended first; events: ${JSON.stringify(this.events)}, output: ${JSON.stringify(this.output.slice(-500))}`,
        );
      await new Promise<void>((wake) => this.#waiting.add(wake));
    }
  }

  /** Waits for the end of the wrapper; any end is a result. */
  async result(): Promise<ExecResult> {
    const [code, signal] = await this.#closed;
    return { code, signal, stdout: await this.#stdout, stderr: await this.#stderr, events: this.events };
  }

  #collectOutput(stdout: Readable): Promise<Buffer> {
    stdout.on("data", (chunk: Buffer) => {
      this.output += chunk.toString("latin1");
      this.onOutput(chunk);
      this.#wake();
    });
    return buffer(stdout);
  }

  #readEvents(stream: Readable): void {
    let pending = "";
    stream.on("data", (chunk: Buffer) => {
      pending += chunk.toString("utf8");
      const lines = pending.split("\n");
      pending = lines.pop()!;
      for (const line of lines) {
        const event: ProcessEvent = JSON.parse(line);
        this.events.push(event);
        this.onEvent(event);
      }
      this.#wake();
    });
  }

  #wake(): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const wake of waiting) wake();
  }
}

/** What an exec wrapper reads first on descriptor 3. */
export function spawnEnvelope(installation: Installation, execId: string, options: SpawnOptions): object {
  return {
    type: "spawn",
    protocolVersion: 1,
    runtimeInstanceId: installation.runtimeInstanceId,
    argv: options.argv,
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    env: options.env ?? {},
    purpose: options.purpose ?? { kind: "agent" },
    options: installation.options,
    execId,
    stdio: options.stdio ?? { kind: "pipes" },
  };
}

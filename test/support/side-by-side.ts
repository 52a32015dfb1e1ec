import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { resolve } from "node:path";
import type { Readable, Writable } from "node:stream";
import { expect } from "vitest";
import type { BuildHost } from "./build-host.ts";
import type { ProcessEvent, RuntimeClient } from "./runtime.ts";

/**
 * The same command as a child process of this one and through the runtime, so that a test can say that nobody who holds
 * the descriptors can tell which it was.
 */

export interface Command {
  argv: string[];
  /** Relative to the workspace. */
  cwd?: string;
  env?: Record<string, string>;
}

/** One command that runs, wherever. `child` is the command itself, or the wrapper that stands for it. */
export interface Running {
  readonly child: ChildProcess;
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Resolves when it can be signalled. */
  started(): Promise<unknown>;
  /** Sends a signal to its process group, as Paseo does: to the wrapper. */
  kill(signal: NodeJS.Signals): void;
  /** Sends a signal to its process group and waits until nothing of it is left: the contract's `signal`. */
  signal(signal: NodeJS.Signals): Promise<void>;
  readonly ended: Promise<Ending>;
}

export interface Ending {
  code: number | null;
  signal: NodeJS.Signals | null;
}

/** Starts a command somewhere. */
export type Start = (command: Command) => Running;

/** What a person's shell has and nothing of this test's own environment. */
export const PATH = "/usr/local/bin:/usr/bin:/bin";

export interface BothWays {
  readonly client: RuntimeClient;
  readonly locally: Start;
  readonly remotely: Start;
}

/** Makes the workspace `w` of a folder, which stands for it locally. */
export async function openBothWays(host: BuildHost, folder: string): Promise<BothWays> {
  const client = host.client();
  await client.create("w", { kind: "directory", path: folder });
  return { client, locally: startLocally(folder), remotely: startRemotely(client, "w") };
}

/** Absolute path of a program in test/fixtures. */
export function fixture(name: string): string {
  return resolve(import.meta.dirname, "../fixtures", name);
}

function startLocally(folder: string): Start {
  return ({ argv, cwd = ".", env = { PATH } }) => {
    const child = spawn(argv[0]!, argv.slice(1), {
      env,
      cwd: `${folder}/${cwd}`,
      stdio: ["pipe", "pipe", "pipe"],
      detached: true,
    });
    const ended = ending(child);
    const kill = (signal: NodeJS.Signals) => void process.kill(-child.pid!, signal);
    const signal = async (name: NodeJS.Signals) => {
      kill(name);
      await ended;
    };
    return { ...streams(child), started: async () => {}, kill, signal, ended };
  };
}

/** An ending through the runtime is also held against what descriptor 4 says. */
function startRemotely(client: RuntimeClient, workspaceId: string): Start {
  return ({ argv, cwd, env = { PATH } }) => {
    const exec = client.exec(workspaceId, {
      argv,
      env,
      ...(cwd === undefined ? {} : { cwd }),
      collectOutput: false,
      collectErrors: false,
    });
    const ended = ending(exec.child).then(({ code, signal }) => {
      expect(exec.events).toEqual(lifecycle(code, signal));
      return { code, signal };
    });
    return {
      ...streams(exec.child),
      started: () => exec.started(),
      kill: (signal) => void exec.child.kill(signal),
      signal: async (name) => {
        expect(await client.signal(workspaceId, exec.execId, name)).toMatchObject({ code: 0, stdout: "", stderr: "" });
      },
      ended,
    };
  };
}

/** The events of an execution with pipes, all of them. */
export function lifecycle(code: number | null, signal: string | null): ProcessEvent[] {
  return [
    { type: "started", protocolVersion: 1 },
    { type: "eof", protocolVersion: 1 },
    { type: "exit", protocolVersion: 1, code, signal },
  ];
}

/** Everything that can be seen of a command that runs to its end with this input. */
export async function observe(running: Running, input: string | Buffer = ""): Promise<Ending & Seen> {
  running.stdin.end(input);
  const [stdout, stderr] = await Promise.all([seen(running.stdout), seen(running.stderr)]);
  return { ...(await running.ended), stdout, stderr };
}

interface Seen {
  stdout: string;
  stderr: string;
}

/** Texts as they are, byte for byte; what is too long to be read in a report as its length and hash. */
async function seen(stream: Readable): Promise<string> {
  const bytes = await readAll(stream);
  return bytes.length <= 4096 ? bytes.toString("latin1") : describeBytes(bytes);
}

/** A command to its end, here and there. */
export async function bothWays(ways: BothWays, command: Command, input?: string | Buffer) {
  const [local, remote] = await Promise.all([
    observe(ways.locally(command), input),
    observe(ways.remotely(command), input),
  ]);
  return { local, remote };
}

export function describeBytes(bytes: Buffer): string {
  return `${bytes.length} bytes, sha256 ${createHash("sha256").update(bytes).digest("hex")}`;
}

export async function readAll(stream: Readable): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

/** Reads a stream all the while, whether somebody asks for its content or not. */
export class Output {
  #chunks: Buffer[] = [];
  #length = 0;
  #waiting = 0;
  #ended = false;
  #wake: () => void = () => {};
  #changed = new Promise<void>((resolve) => {
    this.#wake = resolve;
  });

  constructor(stream: Readable) {
    stream.on("data", (chunk: Buffer) => this.#change(chunk));
    stream.once("close", () => {
      this.#ended = true;
      this.#change(Buffer.alloc(0));
    });
  }

  /** Bytes that have come, taken or not. */
  get length(): number {
    return this.#length;
  }

  /** Takes so many bytes. @throws Error when the stream ends before */
  async take(count: number): Promise<Buffer> {
    while (this.#waiting < count) await this.#more();
    return this.#split(count);
  }

  /** Takes the next line. @throws Error when the stream ends before */
  async line(): Promise<string> {
    return (await this.through(Buffer.from("\n"))).toString("utf8").slice(0, -1);
  }

  /** Takes everything up to these bytes, and them. @throws Error when the stream ends before */
  async through(mark: Buffer): Promise<Buffer> {
    while (!this.#bytes().includes(mark)) await this.#more();
    return this.#split(this.#bytes().indexOf(mark) + mark.length);
  }

  /** Waits for so many bytes since the beginning. @throws Error when the stream ends before */
  async reaches(length: number): Promise<void> {
    while (this.#length < length) await this.#more();
  }

  /** Everything to the end of the stream that was not taken. */
  async rest(): Promise<Buffer> {
    while (!this.#ended) await this.#changed;
    return this.#bytes();
  }

  async #more(): Promise<void> {
    if (this.#ended)
      throw new Error(`The stream ended at ${JSON.stringify(this.#bytes().toString("latin1").slice(-500))}`);
    await this.#changed;
  }

  #bytes(): Buffer {
    if (this.#chunks.length !== 1) this.#chunks = [Buffer.concat(this.#chunks)];
    return this.#chunks[0]!;
  }

  #split(at: number): Buffer {
    const bytes = this.#bytes();
    this.#chunks = [bytes.subarray(at)];
    this.#waiting -= at;
    return bytes.subarray(0, at);
  }

  #change(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#length += chunk.length;
    this.#waiting += chunk.length;
    this.#wake();
    this.#changed = new Promise((resolve) => {
      this.#wake = resolve;
    });
  }
}

/** Runs something for each item, so many at a time, and gives the results in the order of the items. */
export async function forEach<Item, Result>(
  items: readonly Item[],
  atOnce: number,
  run: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  let next = 0;
  const worker = async () => {
    for (let index = next++; index < items.length; index = next++) results[index] = await run(items[index]!);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  return results;
}

function streams(child: ChildProcess): Pick<Running, "child" | "stdin" | "stdout" | "stderr"> {
  // A command may end before it is written to.
  child.stdin!.on("error", () => {});
  return { child, stdin: child.stdin!, stdout: child.stdout!, stderr: child.stderr! };
}

async function ending(child: ChildProcess): Promise<Ending> {
  const [code, signal] = await once(child, "close");
  return { code, signal };
}

import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Readable, Writable } from "node:stream";

/**
 * Calls the runtime as the Paseo daemon does: one process for each operation, JSON on stdin and stdout, five
 * descriptors for exec, detached into its own process group. What runs is the built wrapper, never the sources.
 */

export const LAUNCHER = resolve(import.meta.dirname, "../../bin/paseo-ssh-runtime.cjs");

export interface OperationResult {
  code: number | null;
  signal: NodeJS.Signals | null;
  stdout: string;
  stderr: string;
}

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
}

export type ProcessEvent = Record<string, unknown> & { type: string };

/** One Paseo installation: an instance id, options, and a broker folder of its own. */
export class RuntimeClient {
  readonly runtimeInstanceId: string;
  readonly options: Record<string, unknown>;
  readonly env: NodeJS.ProcessEnv;
  readonly brokerFolder: string;
  readonly launcher: string;

  constructor(
    options: Record<string, unknown>,
    settings: { runtimeInstanceId?: string; env?: NodeJS.ProcessEnv; brokerFolder?: string; launcher?: string } = {},
  ) {
    this.options = options;
    this.runtimeInstanceId = settings.runtimeInstanceId ?? randomBytes(32).toString("hex");
    this.brokerFolder = settings.brokerFolder ?? mkdtempSync(join(tmpdir(), "psr-broker-"));
    this.launcher = settings.launcher ?? LAUNCHER;
    this.env = { ...process.env, ...settings.env, PASEO_SSH_RUNTIME_DIR: this.brokerFolder };
    delete this.env.NODE_EXTRA_CA_CERTS;
    delete this.env.NODE_OPTIONS;
  }

  /** The same broker and host, another Paseo installation or other options. */
  with(changes: {
    runtimeInstanceId?: string;
    options?: Record<string, unknown>;
    env?: NodeJS.ProcessEnv;
  }): RuntimeClient {
    return new RuntimeClient(
      { ...this.options, ...changes.options },
      {
        runtimeInstanceId: changes.runtimeInstanceId ?? this.runtimeInstanceId,
        brokerFolder: this.brokerFolder,
        launcher: this.launcher,
        env: { ...this.env, ...changes.env },
      },
    );
  }

  request(extra: Record<string, unknown> = {}): Record<string, unknown> {
    return { protocolVersion: 1, runtimeInstanceId: this.runtimeInstanceId, options: this.options, ...extra };
  }

  /** Runs the wrapper with these arguments and this standard input. */
  async run(args: string[], stdin = ""): Promise<OperationResult> {
    return await this.start(args, stdin).result;
  }

  /** The same, for a test that does something to the wrapper meanwhile; its process group has its pid. */
  start(args: string[], stdin = ""): { pid: number; result: Promise<OperationResult> } {
    const child = spawn(process.execPath, [this.launcher, ...args], {
      env: this.env,
      stdio: ["pipe", "pipe", "pipe"],
      detached: true,
    });
    const closed = once(child, "close") as Promise<[number | null, NodeJS.Signals | null]>;
    const stdout = collect(child.stdout!);
    const stderr = collect(child.stderr!);
    child.stdin!.on("error", () => {});
    child.stdin!.end(stdin);
    const result = closed.then(async ([code, signal]) => ({
      code,
      signal,
      stdout: (await stdout).toString("utf8"),
      stderr: (await stderr).toString("utf8"),
    }));
    return { pid: child.pid!, result };
  }

  async operation(args: string[], extra: Record<string, unknown> = {}): Promise<OperationResult> {
    return await this.run(args, JSON.stringify(this.request(extra)));
  }

  /** An operation that has to succeed. @returns its answer */
  // biome-ignore lint/suspicious/noExplicitAny: answers are checked by the expectations of the tests
  async ok(args: string[], extra: Record<string, unknown> = {}): Promise<any> {
    const result = await this.operation(args, extra);
    if (result.code !== 0 || result.stderr !== "") {
      throw new Error(`${args.join(" ")} ended with ${result.code ?? result.signal}: ${result.stderr}`);
    }
    return result.stdout === "" ? undefined : JSON.parse(result.stdout);
  }

  createInput(
    workspaceId: string,
    source: object,
    placement: object = { kind: "existing" },
    extra: object = {},
  ): Record<string, unknown> {
    return { input: { workspaceId, project: { projectId: "project", source }, placement, ...extra } };
  }

  // biome-ignore lint/suspicious/noExplicitAny: see ok
  async create(workspaceId: string, source: object, placement?: object, extra?: object): Promise<any> {
    return await this.ok(
      ["create", "--workspace-id", workspaceId],
      this.createInput(workspaceId, source, placement, extra),
    );
  }

  // biome-ignore lint/suspicious/noExplicitAny: see ok
  async inspect(workspaceId: string): Promise<any> {
    return (await this.ok(["inspect", "--workspace-id", workspaceId])).inspection;
  }

  async destroy(workspaceId: string): Promise<void> {
    await this.ok(["destroy", "--workspace-id", workspaceId]);
  }

  signal(workspaceId: string, execId: string, signal: string): Promise<OperationResult> {
    return this.operation(["signal", "--workspace-id", workspaceId, "--exec-id", execId, "--signal", signal]);
  }

  exec(workspaceId: string, options: SpawnOptions): Exec {
    return new Exec(this, workspaceId, options);
  }

  /** Runs a command with pipes to its end. */
  async execute(
    workspaceId: string,
    argv: string[],
    options: Partial<SpawnOptions> & { input?: string | Buffer } = {},
  ): Promise<ExecResult> {
    const exec = this.exec(workspaceId, { argv, ...options });
    exec.stdin.end(options.input ?? "");
    return await exec.result();
  }

  /** Ends the broker and forgets its folder. */
  async close(): Promise<void> {
    await this.run(["broker", "stop"]);
    rmSync(this.brokerFolder, { recursive: true, force: true });
  }
}

export interface ExecResult {
  code: number | null;
  signal: NodeJS.Signals | null;
  stdout: Buffer;
  stderr: Buffer;
  events: ProcessEvent[];
}

/** One running exec wrapper with its five descriptors. */
export class Exec {
  readonly child: ChildProcess;
  readonly execId: string;
  readonly events: ProcessEvent[] = [];
  readonly #stdout: Promise<Buffer>;
  readonly #stderr: Promise<Buffer>;
  readonly #closed: Promise<[number | null, NodeJS.Signals | null]>;
  readonly #waiting = new Set<() => void>();
  /** What has come on fd 1 so far. */
  output = "";

  constructor(client: RuntimeClient, workspaceId: string, options: SpawnOptions) {
    this.execId = options.execId ?? randomBytes(16).toString("hex");
    this.child = spawn(process.execPath, [client.launcher, "exec", "--workspace-id", workspaceId], {
      env: client.env,
      stdio: ["pipe", "pipe", "pipe", "pipe", "pipe"],
      detached: true,
    });
    this.#closed = once(this.child, "close") as Promise<[number | null, NodeJS.Signals | null]>;
    for (const stream of [this.stdin, this.control]) stream.on("error", () => {});
    if (options.collectOutput === false) {
      this.#stdout = Promise.resolve(Buffer.alloc(0));
    } else {
      this.child.stdout!.on("data", (chunk: Buffer) => {
        this.output += chunk.toString("latin1");
        this.#wake();
      });
      this.#stdout = collect(this.child.stdout!);
    }
    this.#stderr = collect(this.child.stderr!);
    this.#readEvents(this.child.stdio[4] as Readable);
    const line =
      options.rawLine ??
      `${JSON.stringify({
        type: "spawn",
        protocolVersion: 1,
        runtimeInstanceId: client.runtimeInstanceId,
        argv: options.argv,
        ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
        env: options.env ?? {},
        purpose: options.purpose ?? { kind: "agent" },
        options: client.options,
        execId: this.execId,
        stdio: options.stdio ?? { kind: "pipes" },
      })}\n`;
    if ((options.stdio as { kind?: string } | undefined)?.kind === "pty") this.control.write(line);
    else this.control.end(line);
  }

  get stdin(): Writable {
    return this.child.stdin!;
  }

  get control(): Writable {
    return this.child.stdio[3] as Writable;
  }

  /** Waits for the first event that satisfies the condition, or for the end of the wrapper. */
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

  async result(): Promise<ExecResult> {
    const [code, signal] = await this.#closed;
    return { code, signal, stdout: await this.#stdout, stderr: await this.#stderr, events: this.events };
  }

  #readEvents(stream: Readable): void {
    let pending = "";
    stream.on("data", (chunk: Buffer) => {
      pending += chunk.toString("utf8");
      const lines = pending.split("\n");
      pending = lines.pop()!;
      for (const line of lines) this.events.push(JSON.parse(line));
      this.#wake();
    });
  }

  #wake(): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const wake of waiting) wake();
  }
}

async function collect(stream: Readable): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

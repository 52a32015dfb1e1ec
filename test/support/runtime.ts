import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import {
  Exec,
  type ExecResult,
  type Installation,
  lifecycleRequest,
  type OperationResult,
  type SpawnOptions,
  spawnEnvelope,
  startWrapper,
} from "../../src/cli/consumer/index.ts";

/** The client of src/cli/consumer with what tests need beside it. What runs is the built wrapper, never the sources. */

export type { Exec, ExecResult, OperationResult, ProcessEvent, SpawnOptions } from "../../src/cli/consumer/index.ts";

export const LAUNCHER = resolve(import.meta.dirname, "../../bin/paseo-ssh-runtime.cjs");

/** One Paseo installation: an instance id, options, and a broker folder of its own. */
export class RuntimeClient implements Installation {
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
    return lifecycleRequest(this, extra);
  }

  /** Runs the wrapper with these arguments and this standard input. */
  async run(args: string[], stdin = ""): Promise<OperationResult> {
    return await this.start(args, stdin).result;
  }

  /** The same, for a test that does something to the wrapper meanwhile; its process group has its pid. */
  start(args: string[], stdin = ""): { pid: number; result: Promise<OperationResult> } {
    return startWrapper(this, args, stdin);
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

  /** A file that an exec wrapper can have as descriptor 3. */
  spawnFile(path: string, options: SpawnOptions): string {
    writeFileSync(path, `${JSON.stringify(spawnEnvelope(this, randomBytes(16).toString("hex"), options))}\n`);
    return path;
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

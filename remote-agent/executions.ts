import { existsSync } from "node:fs";
import { join } from "node:path";
import type { WireConnection } from "../src/wire/connection.ts";
import { RuntimeError } from "../src/wire/errors.ts";
import type { ExecRequest } from "../src/wire/from-client.ts";
import { Execution } from "./execution.ts";
import { ExecutionRecords } from "./execution-records.ts";
import { launchWithPipes } from "./pipes-workload.ts";
import { isRunning, killAll, type ProcessIdentity } from "./processes.ts";
import { findProgram, resolveCwd } from "./program.ts";
import { signalNumber } from "./signals.ts";
import { launchWithTerminal } from "./terminal-workload.ts";
import type { LaunchSpec } from "./workload.ts";

/** How long `signal` waits for the workload's end, in ms. Paseo gives a SIGKILL 750 ms in all before it helps itself. */
const SIGNAL_LIMIT_MS = 5000;
const KILL_LIMIT_MS = 5000;

/** Where a workspace is on this host, as far as an execution needs to know. */
export interface ExecutionPlace {
  /** Folder that holds workspace.json. */
  workspaceFolder: string;
  /** Absolute path of the workspace root. */
  root: string;
  /** Where a bare argv[0] is looked up when env has no PATH. */
  workloadPath: string;
}

/** All executions of this agent, live ones and those whose end the client has not taken yet. */
export class Executions {
  readonly #agent: ProcessIdentity & { socket: string };
  readonly #ptyPath: string | undefined;
  readonly #byKey = new Map<string, Execution>();
  readonly #bySession = new Map<string, Execution>();
  /** Called whenever the last execution is gone. */
  onIdle: () => void = () => {};

  constructor(agent: ProcessIdentity & { socket: string }, agentFolder: string) {
    this.#agent = agent;
    const ptyPath = join(agentFolder, "pty.node");
    this.#ptyPath = existsSync(ptyPath) ? ptyPath : undefined;
  }

  get count(): number {
    return this.#byKey.size;
  }

  /** The execution that this very wrapper started, when it comes back after a lost link. */
  findOwn(request: ExecRequest): Execution | undefined {
    const execution = this.#byKey.get(key(request.workspaceId, request.execId));
    return execution?.session === request.session ? execution : undefined;
  }

  /**
   * Starts a workload.
   * @throws RuntimeError exec-id-reused, execution-lost, cwd-…, program-…, spawn-failed, terminal-unavailable
   */
  start(request: ExecRequest, place: ExecutionPlace, connection: WireConnection): Execution {
    const records = new ExecutionRecords(place.workspaceFolder);
    this.#requireUnused(request, records);
    const cwd = resolveCwd(place.root, request.cwd);
    const env = { ...request.env };
    const spec: LaunchSpec = {
      program: findProgram(request.argv[0]!, cwd, env.PATH ?? place.workloadPath),
      argv: request.argv,
      cwd,
      env,
    };
    const { stdio } = request;
    if (stdio.kind === "pty" && stdio.term !== undefined && env.TERM === undefined) env.TERM = stdio.term;
    const executionKey = key(request.workspaceId, request.execId);
    const execution = new Execution(
      request,
      (events) =>
        stdio.kind === "pipes" ? launchWithPipes(spec, events) : launchWithTerminal(spec, stdio, this.#ptyPath, events),
      () => records.markEnded(request.execId, "exited"),
      () => this.#forget(executionKey, request.session),
    );
    this.#byKey.set(executionKey, execution);
    this.#bySession.set(request.session, execution);
    records.writeLive({
      execId: request.execId,
      pid: execution.identity.pid,
      startTime: execution.identity.startTime,
      agentPid: this.#agent.pid,
      agentStartTime: this.#agent.startTime,
      agentSocket: this.#agent.socket,
    });
    execution.attach(connection, undefined);
    execution.announceStarted();
    return execution;
  }

  #requireUnused(request: ExecRequest, records: ExecutionRecords): void {
    const { execId } = request;
    if (request.resume !== undefined) {
      throw new RuntimeError(
        "execution-lost",
        `The execution ${execId} was lost, because the agent or the build host restarted`,
        "Run the command again",
      );
    }
    if (this.#byKey.has(key(request.workspaceId, execId)) || records.readLive(execId) || records.endedOutcome(execId)) {
      throw new RuntimeError(
        "exec-id-reused",
        `The execution id ${JSON.stringify(execId)} was used before in this workspace`,
        "Use a new one",
      );
    }
  }

  /**
   * The contract's `signal`: returns once the workload is gone.
   * @throws RuntimeError signal-unknown, execution-unknown, process-still-running
   */
  async signal(workspaceId: string, execId: string, signal: string, workspaceFolder: string): Promise<void> {
    signalNumber(signal);
    const execution = this.#byKey.get(key(workspaceId, execId));
    const records = new ExecutionRecords(workspaceFolder);
    if (execution === undefined) {
      if (records.endedOutcome(execId) !== undefined) return;
      throw new RuntimeError(
        "execution-unknown",
        `There is no execution ${JSON.stringify(execId)} in this workspace`,
        "Send signals after started",
      );
    }
    if (!(await execution.signalAndWait(signal, SIGNAL_LIMIT_MS))) {
      throw new RuntimeError(
        "process-still-running",
        `The execution ${execId} still runs ${SIGNAL_LIMIT_MS / 1000} s after ${signal}`,
        signal === "SIGKILL" ? "Look for a process that is stuck in the kernel" : "Send SIGKILL",
      );
    }
  }

  /** Ends every execution of a workspace and returns when they are gone. */
  async endAll(workspaceId: string): Promise<void> {
    const own = [...this.#byKey.values()].filter((execution) => execution.workspaceId === workspaceId);
    await Promise.all(own.map((execution) => execution.terminate()));
  }

  /** A wrapper is gone for good: what it started ends. */
  abandon(session: string): void {
    this.#bySession.get(session)?.abandon();
  }

  #forget(executionKey: string, session: string): void {
    this.#byKey.delete(executionKey);
    this.#bySession.delete(session);
    if (this.#byKey.size === 0) this.onIdle();
  }
}

/**
 * Ends what an agent that is no longer there left running in a workspace, and marks those executions as lost. Only a
 * process with the recorded pid AND start time is touched, with what belongs to it.
 */
export async function sweepLostExecutions(workspaceFolder: string): Promise<void> {
  const records = new ExecutionRecords(workspaceFolder);
  for (const live of records.listLive()) {
    if (isRunning({ pid: live.agentPid, startTime: live.agentStartTime })) continue;
    const identity = { pid: live.pid, startTime: live.startTime };
    if (isRunning(identity)) await killAll(identity, () => [], KILL_LIMIT_MS);
    records.markEnded(live.execId, "lost");
  }
}

function key(workspaceId: string, execId: string): string {
  return JSON.stringify([workspaceId, execId]);
}

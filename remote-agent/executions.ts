import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { WireConnection } from "../src/wire/connection.ts";
import { RuntimeError } from "../src/wire/errors.ts";
import type { ExecRequest } from "../src/wire/from-client.ts";
import { ControlGroup, type ControlGroups } from "./control-groups.ts";
import { Execution } from "./execution.ts";
import { ExecutionRecords, type LiveRecord } from "./execution-records.ts";
import { launchWithPipes } from "./pipes-workload.ts";
import { ProcessTree } from "./process-tree.ts";
import { isAlive, type ProcessIdentity, startTimeOf, waitUntilGone } from "./processes.ts";
import { findProgram, resolveCwd } from "./program.ts";
import { signalNumber } from "./signals.ts";
import { launchWithTerminal } from "./terminal-workload.ts";
import { thisHost } from "./this-host.ts";
import type { LaunchSpec } from "./workload.ts";

/** How long `signal` waits for the workload's end, in ms. Paseo gives a SIGKILL 750 ms in all before it helps itself. */
const SIGNAL_LIMIT_MS = 5000;
const KILL_LIMIT_MS = 5000;
/** How long after its process a control group is removed, in ms. */
const GROUP_REMOVAL_MS = 200;
/** How many abandoned sessions are remembered. */
const MAX_ABANDONED = 1024;

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
  readonly #groups: ControlGroups | undefined;
  readonly #byKey = new Map<string, Execution>();
  readonly #bySession = new Map<string, Execution>();
  /** Sessions that were abandoned lately; requests of theirs may still be on their way over other channels. */
  readonly #abandoned = new Set<string>();
  /** Called whenever the last execution is gone. */
  onIdle: () => void = () => {};

  constructor(agent: ProcessIdentity & { socket: string }, agentFolder: string, groups: ControlGroups | undefined) {
    this.#agent = agent;
    this.#groups = groups;
    const ptyPath = join(agentFolder, "pty.node");
    this.#ptyPath = existsSync(ptyPath) ? ptyPath : undefined;
  }

  get count(): number {
    return this.#byKey.size;
  }

  /**
   * The execution that this very wrapper started, when it comes back after a lost link; it speaks over the new one from
   * now on.
   */
  takeUp(request: ExecRequest, connection: WireConnection): Execution | undefined {
    const execution = this.#byKey.get(key(request.workspaceId, request.execId));
    if (execution?.session !== request.session) return undefined;
    execution.attach(connection, request.resume);
    return execution;
  }

  /**
   * Starts a workload, or takes it up when this very wrapper has started it meanwhile over a link that was lost.
   * @param signal aborted when the client is gone
   * @throws RuntimeError exec-id-reused, execution-lost, cancelled, cwd-…, program-…, spawn-failed,
   *   terminal-unavailable, root-not-writable
   */
  async start(
    request: ExecRequest,
    place: ExecutionPlace,
    connection: WireConnection,
    signal: AbortSignal,
  ): Promise<Execution> {
    const begin = (group?: ControlGroup) => {
      signal.throwIfAborted();
      return this.takeUp(request, connection) ?? this.#start(request, place, connection, group);
    };
    return this.#groups === undefined ? begin() : await this.#groups.start(groupKey(request.workspaceId), begin);
  }

  #start(
    request: ExecRequest,
    place: ExecutionPlace,
    connection: WireConnection,
    group: ControlGroup | undefined,
  ): Execution {
    if (this.#abandoned.has(request.session))
      throw new RuntimeError("cancelled", "The client that asked for this execution is gone", "Run the command again");
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
      group,
      () => {
        try {
          records.markEnded(request.execId, "exited");
        } catch (error) {
          // A full disk must not keep the exit from the client. The live record stays, so the id is not used again.
          console.error(new Date().toISOString(), error);
        }
        // Removing a control group waits for the kernel's readers; the client need not.
        if (group !== undefined) setTimeout(() => group.remove(), GROUP_REMOVAL_MS);
      },
      () => this.#forget(executionKey, request.session),
    );
    this.#byKey.set(executionKey, execution);
    this.#bySession.set(request.session, execution);
    try {
      records.writeLive({
        execId: request.execId,
        ...execution.processes.leader,
        agentPid: this.#agent.pid,
        agentStartTime: this.#agent.startTime,
        agentSocket: this.#agent.socket,
        host: thisHost(),
        ...(group === undefined ? {} : { controlGroup: group.path }),
      });
    } catch (error) {
      execution.abandon();
      throw new RuntimeError(
        "root-not-writable",
        `The record of an execution cannot be written in ${place.workspaceFolder} (${(error as Error).message})`,
        "Free some space there",
      );
    }
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
      // An older agent may have ended without a farewell since this one has started.
      if (records.readLive(execId) !== undefined) await sweepLostExecutions(workspaceFolder);
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

  /**
   * Ends everything that executions of a workspace have started, also what they left behind and what an older agent
   * still runs, and returns when it is gone.
   */
  async endAll(workspaceId: string, workspaceFolder: string): Promise<void> {
    const own = [...this.#byKey.values()].filter((execution) => execution.workspaceId === workspaceId);
    const others = new ExecutionRecords(workspaceFolder)
      .listLive()
      .filter((live) => live.host === thisHost() && live.agentPid !== this.#agent.pid && isAlive(live));
    await Promise.all([
      ...own.map((execution) => execution.terminate()),
      ...others.map((live) => treeOf(live).kill(KILL_LIMIT_MS)),
    ]);
    const left = this.#groups?.ofWorkspace(groupKey(workspaceId));
    if (left === undefined) return;
    await waitUntilGone(() => {
      left.kill();
      return left.pids().length === 0;
    }, KILL_LIMIT_MS);
    left.remove();
  }

  /**
   * The agent that has an execution, when it is not this one: an older build that finishes what it runs.
   * @returns the path of its socket
   */
  ownerElsewhere(workspaceId: string, execId: string, workspaceFolder: string): string | undefined {
    if (this.#byKey.has(key(workspaceId, execId))) return undefined;
    const live = new ExecutionRecords(workspaceFolder).readLive(execId);
    if (live === undefined || live.host !== thisHost() || live.agentPid === this.#agent.pid) return undefined;
    return isAlive(agentOf(live)) ? live.agentSocket : undefined;
  }

  /**
   * Ends all executions.
   * @param farewellMs how long their clients get to take how they ended
   */
  async stop(farewellMs: number): Promise<void> {
    await Promise.all([...this.#byKey.values()].map((execution) => execution.terminate()));
    await waitUntilGone(() => this.#byKey.size === 0, farewellMs);
  }

  /** Does something that starts processes of the agent's own, which must not be born in an execution's group. */
  async outside<T>(work: () => Promise<T>): Promise<T> {
    return this.#groups === undefined ? await work() : await this.#groups.outside(work);
  }

  /** Control groups in which nothing runs any more go away. */
  prune(): void {
    this.#groups?.prune();
  }

  /** Nothing will be started any more. */
  close(): void {
    this.#groups?.close();
  }

  /** A wrapper is gone for good: what it started ends. */
  abandon(session: string): void {
    this.#abandoned.add(session);
    const [oldest] = this.#abandoned;
    if (this.#abandoned.size > MAX_ABANDONED) this.#abandoned.delete(oldest!);
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
    // What runs on another host that shares this root is that host's own.
    if (live.host !== thisHost() || isAlive(agentOf(live))) continue;
    // A control group holds nothing but this execution; a bare pid counts only while its start time is the same.
    if (live.controlGroup !== undefined || startTimeOf(live.pid) === live.startTime)
      await treeOf(live).kill(KILL_LIMIT_MS);
    if (live.controlGroup !== undefined) new ControlGroup(live.controlGroup).remove();
    records.markEnded(live.execId, "lost");
  }
}

function treeOf(live: LiveRecord): ProcessTree {
  const group = live.controlGroup === undefined ? undefined : new ControlGroup(live.controlGroup);
  return new ProcessTree({ pid: live.pid, startTime: live.startTime }, group);
}

function agentOf(live: LiveRecord): ProcessIdentity {
  return { pid: live.agentPid, startTime: live.agentStartTime };
}

function key(workspaceId: string, execId: string): string {
  return JSON.stringify([workspaceId, execId]);
}

/** Ids may hold anything; a folder name may not. */
function groupKey(id: string): string {
  return createHash("sha256").update(id).digest("hex").slice(0, 24);
}

import { createHash } from "node:crypto";
import { mkdirSync } from "node:fs";
import type { Socket } from "node:net";
import { join } from "node:path";
import { authLinkPath } from "../src/wire/agent-link.ts";
import { securePrivateFolder } from "../src/wire/private-folder.ts";
import { type Claim, claimName, publicSocketPath } from "../src/wire/rendezvous.ts";
import { readAccountEnvironment } from "./account.ts";
import { collectUnused } from "./collect.ts";
import { ControlGroups } from "./control-groups.ts";
import { Executions } from "./executions.ts";
import { HelperStore } from "./helper.ts";
import { Layout } from "./layout.ts";
import { Links } from "./links.ts";
import { type AgentServices, Operation } from "./operation.ts";
import { startTimeOf } from "./processes.ts";
import { writeJsonAtomically } from "./store.ts";
import { emptyOldTrash } from "./trash.ts";
import { Workspaces } from "./workspaces.ts";

export interface AgentConfig {
  /** Root folder of this runtime on this host, absolute. */
  root: string;
  /** Folder that holds this agent's bundle and pty.node. */
  agentFolder: string;
  /** Names the content of agentFolder. */
  build: string;
  /** Folder and name of the socket; the name carries the wire version, not the build. */
  socketFolder: string;
  socketName: string;
  /** Take the name over from a live agent of another build. */
  takeOver: boolean;
  /** Milliseconds without connections and executions after which the agent exits. */
  idleMs: number;
}

/** How often control groups are looked through whose last process has ended by itself, in ms. */
const PRUNE_MS = 60_000;
/** How long clients get to take the ends of their executions when the agent is told to stop, in ms. */
const FAREWELL_MS = 1000;
const DAY_MS = 24 * 60 * 60 * 1000;
/** How often the agent looks whether it still has its name, in ms: its root may have been removed. */
const NAME_CHECK_MS = 1000;

/** The agent: one per account and root. Serves connections until there is nothing left to do. */
export class Agent {
  readonly #config: AgentConfig;
  readonly #claim: Claim;
  readonly #services: AgentServices;
  readonly #executions: Executions;
  readonly #operations = new Set<Operation>();
  #idleTimer: NodeJS.Timeout | undefined;
  #onExit: () => void = () => {};

  /** Resolves when this agent has ended by itself. */
  readonly ended: Promise<void>;

  /** @returns undefined when another agent already serves this root */
  static async start(config: AgentConfig): Promise<Agent | undefined> {
    securePrivateFolder(config.socketFolder);
    const waiting: Socket[] = [];
    let accept: (socket: Socket) => void = (socket) => waiting.push(socket);
    const claim = await claimName(config.socketFolder, config.socketName, (socket) => accept(socket), config.takeOver);
    if (claim === undefined) return undefined;
    const agent = new Agent(config, claim);
    await agent.#recover();
    accept = (socket) => agent.#accept(socket);
    for (const socket of waiting) accept(socket);
    agent.#watchIdle();
    return agent;
  }

  private constructor(config: AgentConfig, claim: Claim) {
    this.#config = config;
    this.#claim = claim;
    const layout = new Layout(config.root);
    const identity = { pid: process.pid, startTime: startTimeOf(process.pid) ?? "", socket: claim.privatePath };
    const groups = ControlGroups.detect(rootKey(config.root));
    const executions = new Executions(identity, config.agentFolder, groups);
    const helpers = new HelperStore(layout.helpers);
    const authLink = authLinkPath(publicSocketPath(config.socketFolder, config.socketName));
    const workspaces = new Workspaces(layout, readAccountEnvironment(), helpers, executions, authLink);
    const startedAt = new Date().toISOString();
    this.#executions = executions;
    this.#services = {
      workspaces,
      executions,
      helpers,
      links: new Links(),
      status: () => ({
        kind: "status",
        pid: process.pid,
        build: config.build,
        workspaces: workspaces.count(),
        executions: executions.count,
        startedAt,
      }),
    };
    executions.onIdle = () => this.#watchIdle();
    this.ended = new Promise((resolve) => {
      this.#onExit = resolve;
    });
    setInterval(() => this.#checkName(), NAME_CHECK_MS).unref();
    setInterval(() => executions.prune(), PRUNE_MS).unref();
    const tidy = () => {
      void emptyOldTrash(layout).catch(report);
      void collectUnused(layout, [config.agentFolder, ...layout.ownNode(process.execPath), ...helpers.inUse()]).catch(
        report,
      );
    };
    setInterval(tidy, DAY_MS).unref();
    tidy();
    writeJsonAtomically(
      join(config.socketFolder, `${config.socketName}.json`),
      { pid: process.pid, build: config.build, startedAt },
      { durable: false },
    );
  }

  async #recover(): Promise<void> {
    mkdirSync(this.#config.root, { recursive: true, mode: 0o700 });
    await this.#services.workspaces.recover();
  }

  #accept(socket: Socket): void {
    clearTimeout(this.#idleTimer);
    const operation: Operation = new Operation(socket, this.#services, () => {
      this.#operations.delete(operation);
      this.#watchIdle();
    });
    this.#operations.add(operation);
  }

  #watchIdle(): void {
    clearTimeout(this.#idleTimer);
    if (this.#operations.size > 0 || this.#executions.count > 0) return;
    this.#idleTimer = setTimeout(() => this.#exit(), this.#claim.held() ? this.#config.idleMs : 0);
  }

  /** Without its name nobody new can reach this agent, so it only finishes what it has; spares it has no use for. */
  #checkName(): void {
    if (this.#claim.held()) return;
    for (const operation of [...this.#operations]) operation.closeUnlessUsed();
    this.#watchIdle();
  }

  /** Ends what runs, tells the clients how it ended as far as they listen, and exits. */
  async stop(): Promise<void> {
    this.#claim.release();
    await this.#executions.stop(FAREWELL_MS);
    this.#exit();
  }

  #exit(): void {
    this.#claim.release();
    this.#executions.close();
    this.#onExit();
  }
}

/** Names a root folder where a path cannot stand. */
function rootKey(root: string): string {
  return createHash("sha256").update(root).digest("hex").slice(0, 12);
}

function report(error: unknown): void {
  console.error(new Date().toISOString(), error);
}

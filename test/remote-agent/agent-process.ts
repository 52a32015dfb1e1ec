import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { onTestFinished } from "vitest";
import { Layout } from "../../remote-agent/layout.ts";
import { contentFolder, writeRecord } from "../../remote-agent/workspace-record.ts";

/** A real agent in a process of its own, with a root folder of its own; killed when the test is over. */

export const INSTANCE = "instance-1";
const BUILD = "build-of-the-tests";

export interface AgentSettings {
  root?: string;
  idleMs?: number;
  takeOver?: boolean;
  build?: string;
  /** When the agent is killed and its folder removed: when this test is over, unless somebody else sees to it. */
  cleanUp?: (action: () => void) => void;
}

export class AgentProcess {
  readonly child: ChildProcess;
  readonly root: string;
  readonly socketPath: string;
  /** What it said about its start. */
  readonly answer: Record<string, unknown>;
  /** Everything on its standard error, which is its log. */
  log = "";
  readonly exited: Promise<[number | null, NodeJS.Signals | null]>;

  /** @param program the bundle of remote-agent/main.ts */
  static async start(program: string, settings: AgentSettings = {}): Promise<AgentProcess> {
    const cleanUp = settings.cleanUp ?? onTestFinished;
    const root = settings.root ?? join(newFolder(cleanUp), "root");
    const socketFolder = join(root, "run");
    const config = {
      root,
      agentFolder: join(root, "agent", BUILD),
      build: settings.build ?? BUILD,
      socketFolder,
      socketName: "agent",
      takeOver: settings.takeOver ?? false,
      idleMs: settings.idleMs ?? 60_000,
    };
    const child = spawn(process.execPath, [program, JSON.stringify(config)], {
      cwd: "/",
      stdio: ["ignore", "ignore", "pipe", "pipe"],
      detached: true,
    });
    cleanUp(() => {
      child.kill("SIGKILL");
    });
    const exited = once(child, "exit") as Promise<[number | null, NodeJS.Signals | null]>;
    const line = await text(child.stdio[3] as Socket).catch(() => "");
    return new AgentProcess(child, root, join(socketFolder, "agent.sock"), JSON.parse(line), exited);
  }

  private constructor(
    child: ChildProcess,
    root: string,
    socketPath: string,
    answer: Record<string, unknown>,
    exited: AgentProcess["exited"],
  ) {
    this.child = child;
    this.root = root;
    this.socketPath = socketPath;
    this.answer = answer;
    this.exited = exited;
    child.stderr!.on("data", (chunk: Buffer) => {
      this.log += chunk.toString("utf8");
    });
  }

  get pid(): number {
    return this.child.pid!;
  }

  /** What it holds in memory now, in bytes: proc(5), /proc/[pid]/statm. */
  get residentBytes(): number {
    return Number(readFileSync(`/proc/${this.pid}/statm`, "utf8").split(" ")[1]) * 4096;
  }

  async connect(): Promise<Socket> {
    const socket = connect({ path: this.socketPath, allowHalfOpen: true });
    socket.on("error", () => {});
    onTestFinished(() => {
      socket.destroy();
    });
    await once(socket, "connect");
    return socket;
  }

  /** Puts an empty workspace into the root, as a `create` would have. @returns its id */
  addWorkspace(workspaceId = `workspace-${randomBytes(4).toString("hex")}`): string {
    const folder = this.folderOf(workspaceId);
    mkdirSync(contentFolder(folder), { recursive: true, mode: 0o700 });
    writeRecord(folder, {
      version: 1,
      workspaceId,
      runtimeInstanceId: INSTANCE,
      lifecycle: "ready",
      createdAt: new Date().toISOString(),
      createdBySession: "session-of-the-tests",
      source: "a test",
      root: "",
      baseline: { kind: "plain", files: "0".repeat(64) },
    });
    return workspaceId;
  }

  folderOf(workspaceId: string): string {
    return new Layout(this.root).workspace(workspaceId);
  }
}

function newFolder(cleanUp: (action: () => void) => void): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "psr-agent-")));
  cleanUp(() => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }));
  return folder;
}

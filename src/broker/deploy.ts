import { randomBytes } from "node:crypto";
import type { Readable } from "node:stream";
import * as z from "zod/mini";
import type { Carrier } from "../ssh/index.ts";
import { RuntimeError } from "../wire/errors.ts";
import { PREAMBLE } from "../wire/frame.ts";
import type { AgentFiles } from "./agent-files.ts";
import { MissingNodeShape, missingNode } from "./missing-node.ts";
import { NodeProvision } from "./node-provision.ts";
import { Noise } from "./noise.ts";
import { probeScript } from "./probe-script.ts";
import { runAfterSession } from "./session.ts";

/** Detects a host, puts the agent there when it is missing, and makes sure that it runs: all in one session command. */

export interface AgentAddress {
  /** Path of the agent's socket on the host. */
  socket: string;
  pid: number;
  build: string;
  node: string;
  platform: string;
  /** Path of node on the host, and of the agent's bundle of this build. */
  nodePath: string;
  bundle: string;
  /** Resolves when the session that found this address has ended: a server may allow only one. */
  sessionEnded: Promise<void>;
}

/** What the bootstrap says about a host before it does anything there. */
export type HostFacts = Omit<Extract<z.infer<typeof LineSchema>, { type: "host" }>, "type">;

export interface DeployOptions {
  /** One of our sessions has just ended on this connection. */
  afterSession: boolean;
  /** Host as the user calls it, for messages. */
  host: string;
  root: string;
  node?: string | undefined;
  /** Send a node of this machine's when the host has none. */
  provisionNode: boolean;
  /** Milliseconds for everything but the transfer of files. */
  deadlineMs: number;
  /** Called when files have to be sent. */
  progress(text: string): void;
  /** Called when the host was found good, before anything is put there. */
  found?: ((facts: HostFacts) => void) | undefined;
}

/** Idle time after which an agent on a host exits, in ms. The broker's spare channels keep it while the broker lives. */
const AGENT_IDLE_MS = 60_000;
const MAX_LINE_BYTES = 64 * 1024;

const LineSchema = z.discriminatedUnion("type", [
  z.object({ type: z.literal("node") }),
  z.object({ type: z.literal("no-node"), ...MissingNodeShape }),
  z.object({ type: z.literal("send-node") }),
  z.object({ type: z.literal("node-refused"), reason: z.string() }),
  z.object({
    type: z.literal("host"),
    platform: z.string(),
    libc: z.string(),
    node: z.string(),
    nodePath: z.string(),
    agentFolder: z.string(),
    root: z.string(),
  }),
  z.object({ type: z.literal("need"), files: z.array(z.string()) }),
  z.object({ type: z.literal("ready"), socket: z.string(), pid: z.int(), build: z.string() }),
  z.object({ type: z.literal("error"), code: z.string(), message: z.string(), remedy: z.string() }),
]);

/**
 * @throws RuntimeError node-missing, node-too-old, root-not-writable, root-not-executable, deploy-failed, agent-start-failed
 */
export async function deployAgent(carrier: Carrier, files: AgentFiles, options: DeployOptions): Promise<AgentAddress> {
  const mark = `@paseo-${randomBytes(12).toString("hex")}@`;
  const channel = await (options.afterSession ? runAfterSession(carrier, "/bin/sh") : carrier.run("/bin/sh"));
  const noise = new Noise();
  channel.stderr.on("data", (chunk: Buffer) => noise.add(chunk));
  channel.stdin.on("error", () => {});
  const deadline = new Deadline(options.deadlineMs, () => {
    // What hangs there may never end by itself.
    channel.stdout.destroy();
    channel.close();
  });
  // Whoever names a node wants that one, or to hear that it will not do.
  const nodeRoot = options.provisionNode && options.node === undefined ? options.root : undefined;
  channel.stdin.write(probeScript({ mark, node: options.node, nodeRoot }));
  let provision: NodeProvision | undefined;
  let answered = false;
  let host = { platform: "", node: "", nodePath: "", agentFolder: "", root: "" };
  try {
    for await (const text of markedLines(channel.stdout, mark, noise)) {
      answered = true;
      const line = LineSchema.parse(JSON.parse(text));
      switch (line.type) {
        case "node":
          channel.stdin.write(bootstrapProgram(files.bootstrap));
          channel.stdin.write(`${JSON.stringify(parameters(mark, files, options))}\n`);
          break;
        case "no-node":
          if (nodeRoot === undefined) throw missingNode(options, line);
          provision = await NodeProvision.find(options, line);
          channel.stdin.write(provision.offer);
          break;
        case "send-node":
          deadline.stop();
          void provision?.send(channel).then(() => deadline.start());
          break;
        case "node-refused":
          throw provision?.refusal(line.reason, noise.lastLine()) ?? ended(options, noise, answered);
        case "host":
          host = line;
          options.found?.(line);
          break;
        case "need":
          options.progress(`Putting the agent on ${options.host} (${line.files.length} files)`);
          deadline.stop();
          for (const path of line.files) channel.stdin.write(files.read(path));
          break;
        case "ready":
          return {
            socket: line.socket,
            pid: line.pid,
            build: line.build,
            node: host.node,
            platform: host.platform,
            nodePath: host.nodePath,
            bundle: `${host.agentFolder}/agent.cjs`,
            sessionEnded: channel.exit.then(() => channel.close()),
          };
        case "error":
          throw RuntimeError.fromData(line);
      }
    }
    throw ended(options, noise, answered);
  } catch (error) {
    if (deadline.passed) throw late(options, answered);
    throw error instanceof RuntimeError ? error : ended(options, noise, answered);
  } finally {
    deadline.stop();
    channel.stdin.end();
  }
}

function parameters(mark: string, files: AgentFiles, options: DeployOptions): object {
  return {
    mark,
    root: options.root,
    build: files.manifest.build,
    wireVersion: PREAMBLE.at(-1),
    files: files.manifest.files,
    idleMs: AGENT_IDLE_MS,
  };
}

function bootstrapProgram(text: Buffer): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(text.length);
  return Buffer.concat([length, text]);
}

/** Yields what follows the mark on each of our lines; everything else is noise of the account's start-up files. */
async function* markedLines(stdout: Readable, mark: string, noise: Noise): AsyncGenerator<string> {
  let pending = "";
  for await (const chunk of stdout as AsyncIterable<Buffer>) {
    pending += chunk.toString("utf8");
    const lines = pending.split("\n");
    pending = lines.pop() ?? "";
    if (pending.length > MAX_LINE_BYTES) pending = "";
    for (const line of lines) {
      if (line.startsWith(`${mark} `)) yield line.slice(mark.length + 1);
      else noise.add(Buffer.from(`${line}\n`));
    }
  }
}

class Deadline {
  readonly #ms: number;
  readonly #onPassed: () => void;
  #timer: NodeJS.Timeout | undefined;
  #passed = false;

  constructor(ms: number, onPassed: () => void) {
    this.#ms = ms;
    this.#onPassed = onPassed;
    this.start();
  }

  start(): void {
    this.#timer = setTimeout(() => {
      this.#passed = true;
      this.#onPassed();
    }, this.#ms);
  }

  get passed(): boolean {
    return this.#passed;
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}

/** @param answered whether /bin/sh has come to run our script */
function ended(options: DeployOptions, noise: Noise, answered: boolean): RuntimeError {
  const last = noise.lastLine();
  return new RuntimeError(
    "agent-start-failed",
    `The session on ${options.host} ended before ${answered ? "the agent was started" : "/bin/sh ran in it"}${last === "" ? "" : ` (it said: ${last})`}`,
    answered ? `Check that this works: ssh ${options.host} /bin/sh -c true` : inTheWay(options),
  );
}

function late(options: DeployOptions, answered: boolean): RuntimeError {
  return new RuntimeError(
    "agent-start-failed",
    `${options.host} did not ${answered ? "start the agent" : "run /bin/sh"} within ${options.deadlineMs / 1000} s`,
    answered ? "Raise the option connectTimeoutMs" : inTheWay(options),
  );
}

function inTheWay({ host }: DeployOptions): string {
  return `ForceCommand in its sshd_config, command= in authorized_keys, the account's shell (nologin, false) or a start-up file stands in the way (it must neither read input, nor end the shell, nor replace it): check that "ssh ${host} /bin/sh -c true" works without questions`;
}

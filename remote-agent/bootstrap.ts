import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import * as crypto from "node:crypto";
import * as fs from "node:fs";
import * as net from "node:net";
import * as os from "node:os";
import * as path from "node:path";
import { agentFolderName, filesFor, thisPlatform } from "./platform.ts";
import { thisHost } from "./this-host.ts";

/**
 * What runs on the build host before the agent does, in a node that the probe has found: looks at the host, takes the
 * agent's files when they are not there yet, and starts the agent detached from this SSH session. It is sent as text
 * over the session's standard input, evaluated with `require` and `rest` in scope, and must parse on any old node, to
 * be able to say that the node is too old. It speaks in lines that begin with a mark, since start-up files of the
 * account may print anything.
 */

declare const rest: Buffer;

interface BootstrapFile {
  path: string;
  sha256: string;
  size: number;
  mode: number;
  platform?: string;
}

interface BootstrapParameters {
  mark: string;
  root: string;
  build: string;
  wireVersion: number;
  files: BootstrapFile[];
  idleMs: number;
}

const MIN_NODE_MAJOR = 18;
const START_DEADLINE_MS = 20000;
/** How often, and how long apart in ms, an agent's record is looked for. */
const RECORD_ATTEMPTS = 50;
const RECORD_WAIT_MS = 10;
const MAX_LOG_BYTES = 1024 * 1024;
/**
 * The default lets the agent's heap grow to four times its 10 MB of living data before the garbage that ended
 * executions have left is collected. With these the process settles at 34 MB of its own memory instead of 60 (measured
 * over 2,400 executions), for a collection of some 5 ms every 200 of them.
 */
const HEAP_FLAGS = ["--heap-growing-percent=30", "--max-semi-space-size=4"];
/** node(1): a flag that this node does not know. */
const INVALID_ARGUMENT_STATUS = 9;
/** macOS allows 104 bytes with the closing NUL; the agent's own name adds a pid. */
const MAX_SOCKET_BYTES = 90;
const MORE_SPACE = "Free some space there, or name another folder with the option root";

class Problem extends Error {
  code: string;
  remedy: string;

  constructor(code: string, message: string, remedy: string) {
    super(message);
    this.code = code;
    this.remedy = remedy;
  }
}

let mark = "";
let buffered = rest;
let wanted: { bytes: number; take: (chunk: Buffer) => void } | undefined;
let onParameters: ((parameters: BootstrapParameters) => void) | undefined = (parameters) => {
  begin(parameters).catch((error) => fail(error));
};

process.stdin.on("data", (chunk: Buffer) => {
  buffered = Buffer.concat([buffered, chunk]);
  pump();
});
// The link is gone: nothing is left to do here. A deployment that is not finished stays in a folder of its own.
process.stdin.on("end", () => process.exit(1));
process.stdin.resume();
pump();

function pump(): void {
  if (onParameters !== undefined) {
    const at = buffered.indexOf(10);
    if (at < 0) return;
    const parameters = JSON.parse(buffered.toString("utf8", 0, at)) as BootstrapParameters;
    buffered = buffered.slice(at + 1);
    const deliver = onParameters;
    onParameters = undefined;
    mark = parameters.mark;
    deliver(parameters);
  }
  while (wanted !== undefined && buffered.length > 0) {
    const request = wanted;
    const part = buffered.slice(0, request.bytes);
    buffered = buffered.slice(part.length);
    request.bytes -= part.length;
    request.take(part);
  }
}

function say(value: object): void {
  // A newline first: start-up files may have left the line unfinished.
  process.stdout.write(`\n${mark} ${JSON.stringify(value)}\n`);
}

function fail(error: Error): void {
  const { code, message, remedy } = error instanceof Problem ? error : unexpected(error);
  const text = `\n${mark} ${JSON.stringify({ type: "error", code, message, remedy })}\n`;
  process.stdout.write(text, () => process.exit(1));
}

/** errno(3): the disk or the account's share of it is full. */
const FULL = ["ENOSPC", "EDQUOT"];

function unexpected(error: NodeJS.ErrnoException): Problem {
  const remedy = FULL.indexOf(error.code || "") >= 0 ? MORE_SPACE : "Try again";
  return new Problem("deploy-failed", `The agent could not be put on the build host (${error.message})`, remedy);
}

async function begin(parameters: BootstrapParameters): Promise<void> {
  checkNode();
  const root = prepareRoot(parameters.root);
  const platform = thisPlatform();
  const { name, libc } = platform;
  const agentFolder = path.join(root, "agent", agentFolderName(parameters.build, platform));
  say({ type: "host", platform: name, libc, node: process.version, nodePath: process.execPath, agentFolder, root });
  const files = filesFor(parameters.files, platform);
  if (!isDeployed(agentFolder, files)) await receive(agentFolder, files);
  say(await startAgent(parameters, root, agentFolder));
  process.stdin.pause();
}

function checkNode(): void {
  const major = Number(process.versions.node.split(".")[0]);
  if (major >= MIN_NODE_MAJOR) return;
  throw new Problem(
    "node-too-old",
    `The node at ${process.execPath} on the build host is ${process.version}, and ${MIN_NODE_MAJOR} or newer is needed`,
    "Install a newer node there, or name one with the option node",
  );
}

function prepareRoot(given: string): string {
  const root =
    given === "~" || given.startsWith("~/")
      ? path.join(os.homedir(), given.slice(1))
      : path.resolve(os.homedir(), given);
  const probe = path.join(root, `.probe-${process.pid}`);
  try {
    makeFolder(root);
    fs.writeFileSync(probe, "#!/bin/sh\nexit 0\n", { mode: 0o700 });
  } catch (error) {
    removeQuietly(probe);
    throw new Problem(
      "root-not-writable",
      `The root folder ${root} on the build host cannot be written (${(error as Error).message})`,
      "Fix its permissions or free some space, or name another folder with the option root",
    );
  }
  const run = spawnSync(probe, [], { stdio: "ignore" });
  fs.unlinkSync(probe);
  if (run.status !== 0) {
    throw new Problem(
      "root-not-executable",
      `Programs in the root folder ${root} on the build host cannot be executed`,
      "Its file system is probably mounted noexec; name another folder with the option root",
    );
  }
  return root;
}

/** Node's own recursive mkdir never returns where the system says that a folder's parent is missing and it is not: /proc. */
function makeFolder(folder: string): void {
  if (fs.existsSync(folder)) return;
  makeFolder(path.dirname(folder));
  try {
    fs.mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}

/** Where a file of the bundle lives on the host: flat, as the agent looks for pty.node beside itself. */
function localName(file: BootstrapFile): string {
  return path.basename(file.path);
}

function isDeployed(folder: string, files: BootstrapFile[]): boolean {
  return files.every((file) => {
    try {
      const content = fs.readFileSync(path.join(folder, localName(file)));
      return crypto.createHash("sha256").update(content).digest("hex") === file.sha256;
    } catch (_error) {
      return false;
    }
  });
}

async function receive(folder: string, files: BootstrapFile[]): Promise<void> {
  say({ type: "need", files: files.map((file) => file.path) });
  const incoming = `${folder}.incoming-${process.pid}-${Date.now()}`;
  try {
    fs.mkdirSync(incoming, { recursive: true, mode: 0o700 });
    for (const file of files) await receiveFile(path.join(incoming, localName(file)), file);
    putInPlace(incoming, folder, files);
  } catch (error) {
    // What a full disk holds of it would keep the disk full.
    removeQuietly(incoming);
    throw error instanceof Problem ? error : notWritten(folder, error as Error);
  }
}

function putInPlace(incoming: string, folder: string, files: BootstrapFile[]): void {
  // A folder with wrong content is moved away, never changed: an agent may be running from it.
  if (fs.existsSync(folder) && !isDeployed(folder, files)) {
    fs.renameSync(folder, `${folder}.damaged-${process.pid}-${Date.now()}`);
  }
  try {
    fs.renameSync(incoming, folder);
  } catch (error) {
    if (!isDeployed(folder, files)) throw error;
    // Another connection has put the same content there.
    removeQuietly(incoming);
  }
}

function notWritten(target: string, error: Error): Problem {
  return new Problem(
    "deploy-failed",
    `${target} could not be written on the build host (${error.message})`,
    MORE_SPACE,
  );
}

/** Node 14 and older know no rmSync; they get no further than to be told so. */
function removeQuietly(target: string): void {
  try {
    fs.rmSync(target, { recursive: true, force: true });
  } catch (_error) {
    // It stays behind, and nobody needs it.
  }
}

function receiveFile(target: string, file: BootstrapFile): Promise<void> {
  return new Promise((resolve, reject) => {
    const hash = crypto.createHash("sha256");
    const fd = fs.openSync(target, "wx", file.mode & 0o700);
    const finish = () => {
      wanted = undefined;
      fs.fsyncSync(fd);
      fs.closeSync(fd);
      if (hash.digest("hex") === file.sha256) resolve();
      else reject(new Problem("deploy-failed", `${file.path} arrived damaged on the build host`, "Try again"));
    };
    const request = {
      bytes: file.size,
      take: (chunk: Buffer) => {
        try {
          hash.update(chunk);
          for (let at = 0; at < chunk.length; ) at += fs.writeSync(fd, chunk, at);
          if (request.bytes === 0) finish();
        } catch (error) {
          wanted = undefined;
          reject(notWritten(target, error as Error));
        }
      },
    };
    wanted = request;
    pump();
  });
}

async function startAgent(parameters: BootstrapParameters, root: string, agentFolder: string): Promise<object> {
  const place = socketPlace(parameters.wireVersion, root);
  const socket = path.join(place.folder, `${place.name}.sock`);
  const record = path.join(place.folder, `${place.name}.json`);
  const running = (await answers(socket)) ? await readRecord(record) : undefined;
  if (running !== undefined && running.build === parameters.build) return { type: "ready", socket, ...running };
  const config = {
    root,
    agentFolder,
    build: parameters.build,
    socketFolder: place.folder,
    socketName: place.name,
    takeOver: running !== undefined,
    idleMs: parameters.idleMs,
  };
  const answer = await launch(HEAP_FLAGS, path.join(agentFolder, "agent.cjs"), config, openLog(root));
  if (answer.type === "error") throw new Problem(answer.error.code, answer.error.message, answer.error.remedy);
  const started = await readRecord(record);
  return { type: "ready", socket, ...(started || { pid: answer.pid, build: parameters.build }) };
}

/** A home folder may be shared between hosts, so the name tells the host as well; and a socket's path is bounded. */
function socketPlace(wireVersion: number, root: string): { folder: string; name: string } {
  const short = (text: string) => crypto.createHash("sha256").update(text).digest("hex").slice(0, 8);
  const name = `agent-v${wireVersion}-${thisHost()}`;
  const folder = path.join(root, "run");
  if (Buffer.byteLength(path.join(folder, name)) <= MAX_SOCKET_BYTES - 18) return { folder, name };
  return { folder: `/tmp/paseo-ssh-agent-${os.userInfo().uid}`, name: `${name}-${short(root)}` };
}

function answers(socket: string): Promise<boolean> {
  return new Promise((resolve) => {
    const connection = net.connect(socket);
    connection.once("connect", () => {
      connection.destroy();
      resolve(true);
    });
    connection.once("error", () => resolve(false));
  });
}

/**
 * What the agent that answers has written about itself. It does so right after it has begun to listen, so for a moment
 * there may be no record, or that of its predecessor.
 */
async function readRecord(file: string): Promise<{ pid: number; build: string } | undefined> {
  for (let attempt = 1; ; attempt += 1) {
    const record = readBuild(file);
    if ((record !== undefined && isRunning(record.pid)) || attempt === RECORD_ATTEMPTS) return record;
    await new Promise((resolve) => setTimeout(resolve, RECORD_WAIT_MS));
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (_error) {
    return false;
  }
}

function readBuild(file: string): { pid: number; build: string } | undefined {
  try {
    const { pid, build } = JSON.parse(fs.readFileSync(file, "utf8"));
    return { pid, build };
  } catch (_error) {
    return undefined;
  }
}

function openLog(root: string): number {
  const folder = path.join(root, "logs");
  makeFolder(folder);
  const file = path.join(folder, "agent.log");
  try {
    if (fs.statSync(file).size > MAX_LOG_BYTES) fs.renameSync(file, `${file}.1`);
  } catch (_error) {
    // There is none yet.
  }
  return fs.openSync(file, "a", 0o600);
}

type Answer =
  | { type: "ready" | "other"; pid: number }
  | { type: "error"; error: { code: string; message: string; remedy: string } };

function launch(flags: string[], bundle: string, config: object, log: number): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const child: ChildProcess = spawn(process.execPath, [...flags, bundle, JSON.stringify(config)], {
      cwd: "/",
      detached: true,
      stdio: ["ignore", log, log, "pipe"],
    });
    const failed = (reason: string) =>
      reject(
        new Problem(
          "agent-start-failed",
          `The agent did not start on the build host (${reason})`,
          `Look at its log in ${(config as { root: string }).root}/logs`,
        ),
      );
    const timer = setTimeout(() => failed(`no answer within ${START_DEADLINE_MS / 1000} s`), START_DEADLINE_MS);
    let text = "";
    const ready = child.stdio[3] as net.Socket;
    ready.on("data", (chunk: Buffer) => {
      text += chunk.toString("utf8");
      if (text.indexOf("\n") < 0) return;
      clearTimeout(timer);
      ready.destroy();
      child.unref();
      resolve(JSON.parse(text));
    });
    child.once("error", (error: Error) => failed(error.message));
    child.once("exit", (code) => {
      if (text !== "") return;
      clearTimeout(timer);
      if (code === INVALID_ARGUMENT_STATUS && flags.length > 0) resolve(launch([], bundle, config, log));
      else failed(`it ended with status ${code}`);
    });
  });
}

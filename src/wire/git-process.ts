import { type ChildProcessByStdio, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import type { Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { oneLine, RuntimeError } from "./errors.ts";
import { GIT_SAFE_CONFIG, gitEnvironment } from "./git-environment.ts";

/*
 * Running git. It is no protocol; it lives here because both sides need exactly the same: src/workspace reads a
 * repository with it, remote-agent/materialize writes one, and neither may import the other.
 */

/** Bytes of standard error that are kept, from its end. */
const MAX_STDERR_BYTES = 64 * 1024;
const MAX_STDOUT_BYTES = 128 * 1024 * 1024;
/** Milliseconds that git gets after SIGTERM to remove its lock files and temporary packs. */
const TERMINATE_GRACE_MS = 2_000;
/** Milliseconds after git's exit for which its standard error is read: an ssh master of its making may hold it open. */
const STDERR_GRACE_MS = 500;

type GitChild = ChildProcessByStdio<Writable | null, Readable, Readable>;

export interface GitOptions {
  /** Must exist. */
  cwd: string;
  /** Ends git and everything that it started. */
  signal: AbortSignal;
  env?: Readonly<Record<string, string>> | undefined;
  input?: string | Buffer | Readable;
  /** What a credential helper reads from descriptor 3: the one way by which a secret reaches git (not argv, env or a file). */
  secretInput?: string | undefined;
}

export interface GitEnd {
  /** null when a signal ended git. */
  exitCode: number | null;
  stderr: string;
}

export interface GitResult extends GitEnd {
  stdout: Buffer;
}

export interface GitProcess {
  stdout: Readable;
  /** Settles once git has ended and its output has been read. Rejects only when git could not be started or was cancelled. */
  finished: Promise<GitEnd>;
  /** Ends git and everything that it started; `finished` still settles. */
  stop(): void;
}

/** @throws RuntimeError cancelled, git-missing or internal, through `finished` */
export function spawnGit(args: readonly string[], options: GitOptions): GitProcess {
  const child = spawn("git", [...GIT_SAFE_CONFIG, ...args], {
    cwd: options.cwd,
    env: { ...gitEnvironment(), ...options.env },
    stdio: [
      options.input === undefined ? "ignore" : "pipe",
      "pipe",
      "pipe",
      options.secretInput === undefined ? "ignore" : "pipe",
    ],
    // Its own session: no terminal that ssh could ask on, and one group to end.
    detached: true,
  }) as GitChild;
  let killTimer: NodeJS.Timeout | undefined;
  const stop = () => {
    killGroup(child.pid, "SIGTERM");
    killTimer ??= setTimeout(() => killGroup(child.pid, "SIGKILL"), TERMINATE_GRACE_MS);
    // Unread output would keep the process object from closing.
    child.stdout.destroy();
  };
  const finished = settle(child, options, stop).finally(() => clearTimeout(killTimer));
  // A caller that streams looks at `finished` late; until then its rejection must not count as unhandled.
  finished.catch(() => {});
  return { stdout: child.stdout, finished, stop };
}

async function settle(child: GitChild, options: GitOptions, stop: () => void): Promise<GitEnd> {
  const { signal } = options;
  const stderr = tail(child.stderr);
  const closed = new Promise<number | null>((resolve, reject) => {
    child.once("error", (error) => reject(startFailure(error, options.cwd)));
    child.once("exit", () => setTimeout(() => child.stderr.destroy(), STDERR_GRACE_MS).unref());
    child.once("close", resolve);
  });
  if (signal.aborted) stop();
  signal.addEventListener("abort", stop, { once: true });
  const fed = feed(child, options).catch((error: unknown) => error);
  try {
    const exitCode = await closed;
    const inputError = await fed;
    if (signal.aborted) throw cancellation(signal);
    if (inputError instanceof RuntimeError) throw inputError;
    return { exitCode, stderr: stderr() };
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

/** Writes input and secret. What goes wrong on git's side shows in git's exit code; only a failing source is an error here. */
async function feed(child: GitChild, options: GitOptions): Promise<void> {
  const secret = child.stdio[3] as Writable | null | undefined;
  if (secret && options.secretInput !== undefined) {
    secret.on("error", () => {});
    secret.end(options.secretInput);
  }
  if (!child.stdin || options.input === undefined) return;
  child.stdin.on("error", () => {});
  if (typeof options.input === "string" || Buffer.isBuffer(options.input)) child.stdin.end(options.input);
  else await pipeline(options.input, child.stdin);
}

/** Runs git to its end; any exit code is a result. @throws RuntimeError cancelled, git-missing, git-failed (too much output) */
export async function runGit(args: readonly string[], options: GitOptions): Promise<GitResult> {
  const process = spawnGit(args, options);
  const chunks: Buffer[] = [];
  let size = 0;
  process.stdout.on("data", (chunk: Buffer) => {
    size += chunk.length;
    if (size <= MAX_STDOUT_BYTES) chunks.push(chunk);
    else process.stop();
  });
  const end = await process.finished;
  if (size > MAX_STDOUT_BYTES)
    throw new RuntimeError("git-failed", `Git ${args[0]} printed more than ${MAX_STDOUT_BYTES} bytes`);
  return { ...end, stdout: Buffer.concat(chunks) };
}

/**
 * Runs git and expects success.
 * @param doing what failed if it fails, to follow "Git could not"
 * @returns standard output as text without its last newline
 * @throws RuntimeError git-failed with git's own last words, and what runGit throws
 */
export async function git(args: readonly string[], options: GitOptions & { doing: string }): Promise<string> {
  const result = await runGit(args, options);
  if (result.exitCode !== 0) throw gitFailure(options.doing, result);
  return result.stdout.toString("utf8").replace(/\n$/, "");
}

export function gitFailure(doing: string, result: GitEnd): RuntimeError {
  return new RuntimeError("git-failed", `Git could not ${doing}: ${gitReason(result)}`);
}

/** The line of git's standard error that says why, fit for a person's screen and without credentials. */
export function gitReason(result: GitEnd): string {
  const lines = result.stderr
    .split(/[\r\n]+/)
    .map((line) => oneLine(line))
    .filter((line) => line !== "" && !line.startsWith("hint:"));
  const line = lines.findLast((text) => /^(?:fatal|error): /.test(text)) ?? lines.at(-1);
  const words = line?.replace(/^(?:fatal|error): /, "").replace(/:\/\/[^/\s]*@/g, "://");
  return words || (result.exitCode === null ? "it was killed" : `exit code ${result.exitCode}`);
}

export function cancellation(signal: AbortSignal): RuntimeError {
  return signal.reason instanceof RuntimeError
    ? signal.reason
    : new RuntimeError("cancelled", "The operation was cancelled");
}

function startFailure(error: NodeJS.ErrnoException, cwd: string): RuntimeError {
  // A missing working directory and a missing program give the same ENOENT.
  if (error.code === "ENOENT" && existsSync(cwd)) {
    return new RuntimeError(
      "git-missing",
      "The program git was not found",
      "Install git and make sure that it is on PATH",
    );
  }
  return new RuntimeError("internal", `Git could not be started in ${cwd}: ${error.message}`, "", { cause: error });
}

function killGroup(pid: number | undefined, signal: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, signal);
  } catch {
    // The group is gone already.
  }
}

function tail(stream: Readable): () => string {
  let kept = Buffer.alloc(0);
  stream.on("data", (chunk: Buffer) => {
    kept = Buffer.concat([kept, chunk]);
    if (kept.length > MAX_STDERR_BYTES) kept = kept.subarray(kept.length - MAX_STDERR_BYTES);
  });
  stream.on("error", () => {});
  return () => kept.toString("utf8");
}

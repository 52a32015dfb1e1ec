import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { Duplex } from "node:stream";
import { oneLine, RuntimeError } from "../wire/errors.ts";
import { expandProxy } from "./proxy-tokens.ts";
import { type SshTarget, targetName } from "./target.ts";
import type { Transport } from "./transport.ts";

/** What is kept of a command's stderr; its last words say why it ended. Characters. */
const MAX_COMPLAINT = 1000;
/** A command that was asked to end, or that has ended without closing its stderr. Milliseconds. */
const PATIENCE_MS = 1000;

type WriteCallback = (error?: Error | null) => void;

/** Variables that the caller gives to a ProxyCommand in place of this process's own. */
export interface CommandEnvironment {
  HOME: string | undefined;
  PATH: string | undefined;
  SSH_AUTH_SOCK: string | undefined;
}

/**
 * Starts a ProxyCommand as OpenSSH does (ssh_proxy_connect in sshconnect.c): `$SHELL -c "exec COMMAND"`. It leads a
 * process group of its own, which ends with the transport.
 *
 * @throws RuntimeError option-invalid
 */
export function openProxyCommand(target: SshTarget, { HOME, PATH, SSH_AUTH_SOCK }: CommandEnvironment): Transport {
  const env = { ...process.env, HOME, PATH, SSH_AUTH_SOCK };
  const shell = process.env.SHELL || "/bin/sh";
  const child = spawn(shell, ["-c", `exec ${expandProxy(target.proxyCommand ?? "", target)}`], {
    env,
    detached: true,
    stdio: "pipe",
  });
  const stream = new ProxyStream(child, target);
  return {
    stream,
    detail: `ProxyCommand, process ${child.pid ?? "none"}`,
    complaint: () => stream.complaint,
    close: () => {
      // The command has to be told that nothing follows, and passes on what it has; it may also read nothing any more.
      stream.end(() => stream.destroy());
      setTimeout(() => stream.destroy(), PATIENCE_MS).unref();
    },
    abort: () => void stream.destroy(),
  };
}

/** Both pipes of a command as one stream, which fails with the command's own reason. */
class ProxyStream extends Duplex {
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #target: SshTarget;
  #complaint = "";
  #ended = false;

  constructor(child: ChildProcessWithoutNullStreams, target: SshTarget) {
    super({ allowHalfOpen: false });
    this.#child = child;
    this.#target = target;
    child.stdout.on("data", (chunk: Buffer) => {
      if (!this.push(chunk)) child.stdout.pause();
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      this.#complaint = (this.#complaint + text).slice(-MAX_COMPLAINT);
    });
    // Some keep running without an output; they cannot be of use any more.
    child.stdout.once("end", () => setTimeout(() => this.#ended || this.push(null), PATIENCE_MS).unref());
    // It may fail before anybody listens, and its user looks at `errored`.
    this.on("error", () => {});
    // How the command ends says more than a broken pipe.
    for (const pipe of child.stdio) pipe?.on("error", () => {});
    child.once("error", (error) => this.#fail(`cannot be started (${error.message})`));
    child.once("exit", (code, signal) => this.#onExit(code, signal));
    process.once("exit", this.#onOwnExit);
  }

  /** What the command has said on stderr, on one line. */
  get complaint(): string {
    return oneLine(this.#complaint);
  }

  override _read(): void {
    this.#child.stdout.resume();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, callback: WriteCallback): void {
    this.#child.stdin.write(chunk, () => callback());
  }

  override _final(callback: WriteCallback): void {
    this.#child.stdin.end(() => callback());
  }

  override _destroy(error: Error | null, callback: WriteCallback): void {
    this.#killGroup("SIGHUP");
    // A command that ignores it does not get to stay. Until the process is reaped, its number is nobody else's.
    if (!this.#ended) setTimeout(() => this.#ended || this.#killGroup("SIGKILL"), PATIENCE_MS).unref();
    for (const pipe of this.#child.stdio) pipe?.destroy();
    callback(error);
  }

  readonly #onOwnExit = (): void => this.#killGroup("SIGHUP");

  #onExit(code: number | null, signal: NodeJS.Signals | null): void {
    this.#ended = true;
    process.removeListener("exit", this.#onOwnExit);
    // Whatever it has left behind holds the pipes, and nobody else ends it.
    this.#killGroup("SIGHUP");
    const report = () => {
      clearTimeout(timer);
      if (this.destroyed) return;
      if (this.readableEnded) return;
      if (code === 0 && this.#complaint === "") this.push(null);
      else this.#fail(signal === null ? `ended with exit status ${code}` : `was ended by ${signal}`);
    };
    const timer = setTimeout(report, PATIENCE_MS);
    this.#child.once("close", report);
  }

  /** The command itself is not shown: people write tokens into it. */
  #fail(how: string): void {
    const reason = this.complaint;
    this.destroy(
      new RuntimeError(
        "proxy-failed",
        `The ProxyCommand of ${targetName(this.#target)} ${how}${reason === "" ? " and gave no reason" : `: ${reason}`}`,
        `Correct ProxyCommand in ssh_config until "ssh ${this.#target.alias}" works`,
      ),
    );
  }

  #killGroup(signal: NodeJS.Signals): void {
    const { pid } = this.#child;
    if (pid === undefined) return;
    try {
      process.kill(-pid, signal);
    } catch {
      // Nobody of it is left.
    }
  }
}

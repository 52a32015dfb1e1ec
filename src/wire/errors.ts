/**
 * The one error class of this product. It crosses every process boundary as plain data: the agent and the broker send
 * it, the wrapper prints it as one line that a person reads in a chat window.
 */

/** Stable codes. docs/troubleshooting.md has one entry for each; never rename one, people script against them. */
export const ERROR_CODES = [
  "agent-start-failed",
  "authentication-failed",
  "branch-name-invalid",
  "branch-unknown",
  "broker-start-failed",
  "cancelled",
  "change-request-unavailable",
  "connection-failed",
  "connection-lost",
  "connection-refused",
  "connection-timeout",
  "control-invalid",
  "cwd-missing",
  "cwd-outside-workspace",
  "deploy-failed",
  "exec-id-reused",
  "execution-lost",
  "execution-unknown",
  "forwarding-refused",
  "git-failed",
  "git-missing",
  "git-source-unreachable",
  "helper-not-found",
  "host-key-changed",
  "host-key-revoked",
  "host-key-unknown",
  "host-unknown",
  "host-unsupported",
  "internal",
  "keychain-unavailable",
  "node-missing",
  "node-too-old",
  "option-invalid",
  "option-missing",
  "option-unknown",
  "process-still-running",
  "program-not-executable",
  "program-not-found",
  "protocol-version-unsupported",
  "proxy-failed",
  "reconnect-window-exceeded",
  "request-invalid",
  "revision-unknown",
  "root-not-executable",
  "root-not-writable",
  "runtime-folder-unsafe",
  "session-refused",
  "signal-unknown",
  "source-missing",
  "source-unreadable",
  "source-unsupported",
  "spawn-failed",
  "spawn-invalid",
  "ssh-program-missing",
  "stream-refused",
  "subdirectory-missing",
  "terminal-unavailable",
  "usage",
  "wire-violation",
  "workspace-broken",
  "workspace-busy",
  "workspace-missing",
  "workspace-owned-elsewhere",
  "workspace-paused",
] as const;

export type ErrorCode = (typeof ERROR_CODES)[number];

/** The form in which an error crosses a process boundary. */
export interface ErrorData {
  code: ErrorCode;
  /** One sentence that names the thing that failed, without a trailing stack or newline. */
  message: string;
  /** One sentence that says what the reader can do; empty when there is nothing to do. */
  remedy: string;
}

/** Longest text that an error carries; remote output inside it is cut to fit. Characters. */
const MAX_TEXT = 2000;
/** Longer text is cut before it is cleaned: a megabyte of escape sequences would take a second. Characters. */
const MAX_CLEANED_TEXT = 32 * MAX_TEXT;

const BRAND = Symbol.for("paseo-ssh-runtime.RuntimeError");

export class RuntimeError extends Error {
  override readonly name = "RuntimeError";
  readonly code: ErrorCode;
  readonly remedy: string;
  readonly [BRAND] = true;

  constructor(code: ErrorCode, message: string, remedy = "", options?: { cause?: unknown }) {
    super(oneLine(message), options);
    this.code = code;
    this.remedy = oneLine(remedy);
  }

  /** The line for stderr: cause, remedy, code in brackets. */
  toLine(): string {
    return [asSentence(this.message), asSentence(this.remedy), `[${this.code}]`].filter(Boolean).join(" ");
  }

  toData(): ErrorData {
    return { code: this.code, message: this.message, remedy: this.remedy };
  }

  /** Each bundle has this class once, and what one of them throws the others must know. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    return value instanceof Error && BRAND in value;
  }

  static fromData(data: { code: string; message: string; remedy: string }): RuntimeError {
    const code = (ERROR_CODES as readonly string[]).includes(data.code) ? (data.code as ErrorCode) : "internal";
    return new RuntimeError(code, data.message, data.remedy);
  }

  /** Anything thrown, as a RuntimeError; what is not one is a bug of ours and says so without a stack trace. */
  static from(error: unknown): RuntimeError {
    if (error instanceof RuntimeError) return error;
    const text = error instanceof Error ? error.message : String(error);
    return new RuntimeError(
      "internal",
      `Internal error: ${text}`,
      "Please report this with the command that led to it",
      {
        cause: error,
      },
    );
  }
}

/**
 * Text from another machine or program, made safe for one line of a person's screen: no control characters (a remote
 * program could otherwise move the cursor or forge lines), no runs of blanks, bounded.
 */
export function oneLine(text: string): string {
  const clean = text
    .slice(0, MAX_CLEANED_TEXT)
    .replace(/\x1b\[[0-9;?]*[ -/]*[@-~]/g, "")
    .replace(/[\x00-\x1f\x7f-\x9f\u2028\u2029]+/g, " ")
    .replace(/ {2,}/g, " ")
    .trim();
  return clean.length > MAX_TEXT ? `${clean.slice(0, MAX_TEXT - 1)}…` : clean;
}

function asSentence(text: string): string {
  return text === "" || /[.!?…]$/.test(text) ? text : `${text}.`;
}

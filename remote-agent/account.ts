import { spawn } from "node:child_process";
import { homedir, userInfo } from "node:os";
import { delimiter } from "node:path";
import { sendSignal } from "./processes.ts";

/**
 * The environment that a login of this account gets, as far as workloads need it. Asked once, when the agent starts:
 * a login shell may take a second to read its start-up files.
 */
export interface AccountEnvironment {
  PATH: string;
  HOME: string;
  USER: string;
  LOGNAME: string;
  SHELL: string;
  LANG: string;
  TMPDIR: string;
}

/** Milliseconds after which a login shell that does not answer is given up. */
const LOGIN_SHELL_DEADLINE_MS = 5000;
const MAX_ANSWER_BYTES = 64 * 1024;
const FALLBACK_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";
/** Between these, whatever start-up files print before and after is ignored. */
const MARK = "@paseo-environment@";

/**
 * What the login shell does not tell comes from this process.
 * @param shell the account's login shell
 * @param deadlineMs how long it may take
 */
export async function readAccountEnvironment(
  shell = loginShell(),
  deadlineMs = LOGIN_SHELL_DEADLINE_MS,
): Promise<AccountEnvironment> {
  const user = userInfo();
  const answer = await askLoginShell(shell, deadlineMs).catch(() => undefined);
  return {
    PATH: answer?.PATH || process.env.PATH || FALLBACK_PATH,
    HOME: process.env.HOME || user.homedir || homedir(),
    USER: user.username,
    LOGNAME: user.username,
    SHELL: shell,
    LANG: answer?.LANG || process.env.LANG || "C.UTF-8",
    TMPDIR: answer?.TMPDIR || process.env.TMPDIR || "/tmp",
  };
}

function loginShell(): string {
  return userInfo().shell || process.env.SHELL || "/bin/sh";
}

type ShellAnswer = Pick<AccountEnvironment, "PATH" | "LANG" | "TMPDIR">;

/** A quoted word that bash, dash, zsh, ksh, fish and csh read alike; sh is what expands the variables. */
const QUESTION = `/bin/sh -c 'printf "%s\\n" "${MARK}" "$PATH" "$LANG" "$TMPDIR" "${MARK}"'`;
const ANSWER = new RegExp(`${MARK}\\n(.*)\\n(.*)\\n(.*)\\n${MARK}`);

/** Rejects when the shell cannot be started at all. */
function askLoginShell(shell: string, deadlineMs: number): Promise<ShellAnswer | undefined> {
  // csh and tcsh take -l only when it stands alone.
  const flags = /\/t?csh$/.test(shell) ? ["-c"] : ["-l", "-c"];
  return new Promise((resolve) => {
    const child = spawn(shell, [...flags, QUESTION], { stdio: ["ignore", "pipe", "ignore"], detached: true });
    let text = "";
    const finish = (answer: ShellAnswer | undefined) => {
      clearTimeout(timer);
      child.stdout.destroy();
      resolve(answer);
    };
    const timer = setTimeout(() => {
      if (child.pid !== undefined && child.exitCode === null) sendSignal(-child.pid, "SIGKILL");
      finish(undefined);
    }, deadlineMs);
    child.stdout.on("data", (chunk: Buffer) => {
      text += chunk.toString("latin1");
      const [, PATH, LANG, TMPDIR] = ANSWER.exec(text) ?? [];
      text = text.slice(-MAX_ANSWER_BYTES);
      // Not at the end of the stream: a daemon that a start-up file leaves behind may hold it open.
      if (PATH !== undefined) finish({ PATH: decode(PATH), LANG: decode(LANG), TMPDIR: decode(TMPDIR) });
    });
    child.on("error", () => finish(undefined));
    child.on("close", () => finish(undefined));
  });
}

/** Chunks may cut a character, so they are joined as bytes. */
function decode(bytes: string | undefined): string {
  return Buffer.from(bytes ?? "", "latin1").toString("utf8");
}

/** Joins the workload PATH: the helper's folder, what the options add (with `~` meaning HOME), then the account's. */
export function workloadPath(
  account: AccountEnvironment,
  helperFolder: string | undefined,
  additions: readonly string[],
): string {
  const expanded = additions.map((entry) => (/^~(?=\/|$)/.test(entry) ? account.HOME + entry.slice(1) : entry));
  return [...(helperFolder === undefined ? [] : [helperFolder]), ...expanded, account.PATH].join(delimiter);
}

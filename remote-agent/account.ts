import { spawn } from "node:child_process";
import { homedir, userInfo } from "node:os";
import { delimiter } from "node:path";

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

export async function readAccountEnvironment(): Promise<AccountEnvironment> {
  const user = userInfo();
  const shell = user.shell || process.env.SHELL || "/bin/sh";
  const answer = await askLoginShell(shell);
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

/** A quoted word that bash, dash, zsh, ksh, fish and csh read alike; sh is what expands the variables. */
const QUESTION = `/bin/sh -c 'printf "%s\\n" "${MARK}" "$PATH" "$LANG" "$TMPDIR" "${MARK}"'`;

function askLoginShell(shell: string): Promise<{ PATH: string; LANG: string; TMPDIR: string } | undefined> {
  // csh and tcsh take -l only when it stands alone.
  const flags = /\/t?csh$/.test(shell) ? ["-c"] : ["-l", "-c"];
  return new Promise((resolve) => {
    const child = spawn(shell, [...flags, QUESTION], { stdio: ["ignore", "pipe", "ignore"], detached: true });
    let text = "";
    const timer = setTimeout(() => {
      if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
      child.stdout.destroy();
    }, LOGIN_SHELL_DEADLINE_MS);
    child.stdout.on("data", (chunk: Buffer) => {
      if (text.length < MAX_ANSWER_BYTES) text += chunk.toString("utf8");
    });
    child.on("error", () => finish());
    child.on("close", () => finish());
    const finish = () => {
      clearTimeout(timer);
      const [, PATH, LANG, TMPDIR] = new RegExp(`${MARK}\\n(.*)\\n(.*)\\n(.*)\\n${MARK}`).exec(text) ?? [];
      resolve(PATH === undefined ? undefined : { PATH, LANG: LANG ?? "", TMPDIR: TMPDIR ?? "" });
    };
  });
}

/** Joins the workload PATH: the helper's folder, what the options add (with `~/` meaning HOME), then the account's. */
export function workloadPath(
  account: AccountEnvironment,
  helperFolder: string | undefined,
  additions: readonly string[],
): string {
  const expanded = additions.map((entry) => (entry.startsWith("~/") ? account.HOME + entry.slice(1) : entry));
  return [...(helperFolder === undefined ? [] : [helperFolder]), ...expanded, account.PATH].join(delimiter);
}

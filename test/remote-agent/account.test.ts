import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { userInfo } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { type AccountEnvironment, readAccountEnvironment, workloadPath } from "../../remote-agent/account.ts";
import { scratchFolder } from "../support/scratch-folder.ts";

/** Start-up files that print before and after, and set what a login sets, in each shell's own words. */
const POSIX = `
printf 'Welcome, no newline behind this'
export PATH="$HOME/from login:$PATH" LANG=xx_YY.UTF-8 TMPDIR=/tmp/ä
trap 'echo Goodbye' EXIT
`;
const CSH = `
echo -n 'Welcome, no newline behind this'
setenv PATH "$HOME/from login:$PATH"
setenv LANG xx_YY.UTF-8
setenv TMPDIR /tmp/ä
`;
const FISH = `
echo -n 'Welcome, no newline behind this'
set -gx PATH "$HOME/from login" $PATH
set -gx LANG xx_YY.UTF-8
set -gx TMPDIR /tmp/ä
`;
const SHELLS: [path: string, startUpFile: string, content: string][] = [
  ["/bin/sh", ".profile", POSIX],
  ["/bin/bash", ".bash_profile", POSIX],
  ["/bin/dash", ".profile", POSIX],
  ["/bin/zsh", ".zprofile", POSIX],
  ["/bin/ksh", ".profile", POSIX],
  ["/bin/tcsh", ".cshrc", CSH],
  ["/usr/bin/fish", ".config/fish/config.fish", FISH],
];

/** A home folder with these files, for as long as the test runs. */
function home(files: Record<string, string>): string {
  const folder = scratchFolder();
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), content);
  }
  vi.stubEnv("HOME", folder);
  vi.stubEnv("ZDOTDIR", undefined);
  vi.stubEnv("XDG_CONFIG_HOME", undefined);
  vi.stubEnv("ENV", undefined);
  vi.stubEnv("BASH_ENV", undefined);
  vi.stubEnv("LANG", "C.UTF-8");
  vi.stubEnv("TMPDIR", undefined);
  vi.stubEnv("PATH", "/usr/bin:/bin");
  return folder;
}

/** A program that stands in for a login shell. */
function shellThat(script: string): string {
  const path = join(scratchFolder(), "shell");
  writeFileSync(path, `#!/bin/sh\n${script}\n`);
  chmodSync(path, 0o755);
  return path;
}

afterEach(() => vi.unstubAllEnvs());

describe("the environment of an account", () => {
  it.each(SHELLS.filter(([shell]) => existsSync(shell)))("comes from a login of %s", async (shell, file, content) => {
    const folder = home({ [file]: content });
    const account = await readAccountEnvironment(shell);
    const { username } = userInfo();
    expect(account).toEqual({
      PATH: expect.stringMatching(new RegExp(`^${folder}/from login:.*/bin`)),
      HOME: folder,
      USER: username,
      LOGNAME: username,
      SHELL: shell,
      LANG: "xx_YY.UTF-8",
      TMPDIR: "/tmp/ä",
    });
  });

  it("is what this process has, where the login says nothing", async () => {
    const folder = home({});
    vi.stubEnv("PATH", "/somewhere/bin");
    vi.stubEnv("LANG", undefined);
    const account = await readAccountEnvironment(shellThat("exit 1"));
    expect(account).toMatchObject({ PATH: "/somewhere/bin", HOME: folder, LANG: "C.UTF-8", TMPDIR: "/tmp" });
    vi.stubEnv("PATH", "");
    expect((await readAccountEnvironment(shellThat("exit 1"))).PATH).toBe(
      "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
    );
  });

  it.each(["/usr/sbin/nologin", "/bin/false", "/nowhere/shell", "/etc", "/etc/passwd", "/etc/passwd/shell", ""])(
    "does without a shell that is none: %j",
    async (shell) => {
      home({});
      const account = await readAccountEnvironment(shell);
      expect(account.PATH).toBe("/usr/bin:/bin");
    },
  );

  it.each([
    ["in its session", ""],
    ["in another session", "setsid "],
  ])("does not wait for a daemon that a start-up file leaves behind %s", async (_place, prefix) => {
    const folder = home({ ".profile": `${prefix}sleep 60 & echo $! > "$HOME/pid"\nexport LANG=from-profile\n` });
    onTestFinished(() => {
      process.kill(Number(readFileSync(join(folder, "pid"), "utf8")), "SIGKILL");
    });
    const begin = performance.now();
    expect((await readAccountEnvironment("/bin/sh")).LANG).toBe("from-profile");
    expect(performance.now() - begin).toBeLessThan(3000);
    // Whoever keeps its output open is no business of ours.
    expect(process.kill(Number(readFileSync(join(folder, "pid"), "utf8")), 0)).toBe(true);
  });

  it.each([
    ["never answers", "exec sleep 60"],
    ["has ended, but something of it holds its output", "setsid sleep 60 & echo $! > $HOME/pid; exit 0"],
  ])("gives up on a shell that %s", async (_name, script) => {
    const folder = home({});
    onTestFinished(() => {
      if (existsSync(join(folder, "pid"))) process.kill(Number(readFileSync(join(folder, "pid"), "utf8")), "SIGKILL");
    });
    const account = await readAccountEnvironment(shellThat(script), 200);
    expect(account.PATH).toBe("/usr/bin:/bin");
  });

  it("survives start-up files that print without end", async () => {
    home({ ".profile": "head -c 3000000 /dev/zero | tr '\\\\0' x\nexport LANG=from-profile\n" });
    expect((await readAccountEnvironment("/bin/sh")).LANG).toBe("from-profile");
    home({});
    expect((await readAccountEnvironment(shellThat("exec cat /dev/zero"), 200)).LANG).toBe("C.UTF-8");
  });
});

describe("the PATH of workloads", () => {
  const account = { PATH: "/usr/bin:/bin", HOME: "/home/me" } as AccountEnvironment;

  it("begins with the helper, then what the options add, then the account's", () => {
    expect(workloadPath(account, "/root/helper/abc", ["~/bin", "/opt/x", "~", "/x/~", "~you"])).toBe(
      "/root/helper/abc:/home/me/bin:/opt/x:/home/me:/x/~:~you:/usr/bin:/bin",
    );
    expect(workloadPath(account, undefined, [])).toBe("/usr/bin:/bin");
  });
});

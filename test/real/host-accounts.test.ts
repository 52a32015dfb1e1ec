import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ACCOUNT_HOST, type Account, addAccount } from "../support/accounts.ts";
import { BuildHost } from "../support/build-host.ts";
import { describeWithShell } from "../support/requirements.ts";
import type { RuntimeClient } from "../support/runtime.ts";
import { commit, git, write } from "../workspace/fixture.ts";

/** Accounts whose login shell is not bash, and start-up files that do what people's start-up files do. */

const ART = '\\033[1;31m /\\\\_/\\\\ \\033[0m @paseo-environment@ {\\"type\\":\\"ready\\"}';
const POSIX_NOISE = `printf '${ART}\\n'; echo "noise on stderr" >&2
set -u
export STRANGE="a b'c" PS1='> ' CDPATH=/ GREP_OPTIONS=--color=always LC_ALL=C
printf 'a line without its end'
`;
const POSIX_PATH = 'export PATH="$HOME/my tools:$PATH" LANG=C.UTF-8\n';

interface Case {
  shell: string;
  files: Record<string, string>;
  homeName?: string;
}

const CASES: Case[] = [
  { shell: "/bin/dash", files: { ".profile": POSIX_NOISE + POSIX_PATH } },
  {
    shell: "/bin/bash",
    files: { ".bashrc": `${POSIX_NOISE}export SHELLOPTS\nalias sh=false\n`, ".profile": POSIX_NOISE + POSIX_PATH },
  },
  { shell: "/usr/bin/zsh", files: { ".zshenv": POSIX_NOISE, ".zprofile": POSIX_PATH } },
  {
    shell: "/usr/bin/fish",
    files: {
      ".config/fish/config.fish": `printf '${ART}\\n'; echo noise >&2
set -gx STRANGE "a b'c"; set -gx PATH "$HOME/my tools" $PATH; set -gx LANG C.UTF-8
printf 'a line without its end'
`,
    },
  },
  {
    shell: "/usr/bin/tcsh",
    files: {
      ".tcshrc": `printf '${ART}\\n'
setenv STRANGE "a b"; setenv PATH "$HOME/my tools:$PATH"; setenv LANG C.UTF-8
printf 'a line without its end'
`,
    },
  },
  { shell: "/bin/dash", homeName: "h".repeat(120), files: { ".profile": POSIX_NOISE + POSIX_PATH } },
  { shell: "/bin/bash", homeName: "Büro $HOME `家`", files: { ".bashrc": POSIX_NOISE, ".bash_profile": POSIX_PATH } },
  { shell: "/bin/bash", homeName: `it's a "home"`, files: { ".bashrc": POSIX_NOISE, ".bash_profile": POSIX_PATH } },
];

for (const { shell, files, homeName } of CASES) {
  const where = homeName === undefined ? "" : ` and the home ${homeName}`;
  describeWithShell(shell)(`an account with ${shell}${where}`, () => {
    let host: BuildHost;
    let account: Account;
    let client: RuntimeClient;

    beforeAll(async () => {
      host = await BuildHost.start(ACCOUNT_HOST);
      account = addAccount(host, { shell, homeName });
      for (const [path, text] of Object.entries(files)) account.write(path, text);
      account.write("my tools/account-tool", "#!/bin/sh\necho found\n", 0o755);
      client = host.client(account.options);
    });
    afterAll(async () => {
      await client?.close();
      await account?.remove();
      await host?.stop();
    });

    it("runs everything", async () => {
      expect(await client.inspect("w")).toEqual({ status: "missing" });

      const path = host.path("source");
      mkdirSync(path);
      git(path, "init", "-q", "-b", "main");
      write(join(path, "file"), "content\n");
      commit(path);
      write(join(path, "file"), "changed\n");
      const { state, placement } = await client.create("w", { kind: "directory", path });
      expect(placement.cwd.startsWith(`${account.root}/workspaces/`)).toBe(true);
      const environment = state.lifecycleEnvironment;
      expect(environment).toMatchObject({
        HOME: account.home,
        USER: account.name,
        LOGNAME: account.name,
        SHELL: shell,
        LANG: "C.UTF-8",
        TMPDIR: "/tmp",
      });
      expect(environment.PATH.split(":")[0]).toBe(join(account.home, "my tools"));
      expect(environment.PATH).toMatch(/^[^\n@]*:\/usr\/bin:?[^\n@]*$/);

      const script = "account-tool; id -un; pwd; git status --porcelain; echo error >&2; exit 3";
      const pipes = await client.execute("w", ["sh", "-c", script], { env: environment });
      expect([pipes.code, pipes.stderr.toString("utf8")]).toEqual([3, "error\n"]);
      expect(pipes.stdout.toString("utf8")).toBe(`found\n${account.name}\n${placement.cwd}\n M file\n`);
      expect((await client.execute("w", ["account-tool"])).stdout.toString("utf8")).toBe("found\n");
      const bare = await client.execute("w", ["env"], { env: { ONLY: "this" } });
      expect(bare.stdout.toString("utf8")).toBe("ONLY=this\n");

      const stdio = { kind: "pty", rows: 11, cols: 77, term: "xterm-256color" };
      const exec = client.exec("w", { argv: ["sh", "-c", "stty size; echo $TERM; id -un"], env: environment, stdio });
      const terminal = await exec.result();
      expect(terminal.code).toBe(0);
      expect(terminal.stdout.toString("utf8")).toBe(`11 77\r\nxterm-256color\r\n${account.name}\r\n`);
    });
  });
}

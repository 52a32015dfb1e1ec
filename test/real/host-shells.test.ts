import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ACCOUNT_HOST, addAccount } from "../support/accounts.ts";
import { BuildHost } from "../support/build-host.ts";
import { describePrivileged, describeWithShell } from "../support/requirements.ts";

/** Login shells and start-up files that get in the way of whoever runs commands over ssh. */

/** Where the shell lies that is no POSIX shell, and what a start-up file puts in the place of one. */
const programs = mkdtempSync(join(tmpdir(), "psr-shells-"));
chmodSync(programs, 0o755);
/** As nushell does, it takes one command of plain words and says that anything else is no command. */
const WORD_SHELL = join(programs, "word-shell");
const FAKE_TMUX = join(programs, "tmux");

const program = (path: string, text: string) => {
  writeFileSync(path, text);
  chmodSync(path, 0o755);
};
program(
  WORD_SHELL,
  `#!/bin/sh
[ "$1" = -c ] && [ $# = 2 ] || { echo "Error: unknown flag" >&2; exit 1; }
case $2 in *[!A-Za-z0-9/._\\ -]*) echo "Error: nu::parser::parse_mismatch" >&2; exit 1 ;; esac
exec $2
`,
);
program(FAKE_TMUX, "#!/bin/sh\necho 'open terminal failed: not a terminal' >&2\nexit 1\n");
afterAll(() => rmSync(programs, { recursive: true, force: true }));

const BYTES_64_KB = "/usr/bin/head -c 65536 /dev/zero | /usr/bin/tr '\\0' x";
const CONTROLS = "/usr/bin/printf '\\033[2J\\033]0;title\\a\\r\\0\\377 @paseo-'";
const POSIX_ALIASES = "for name in uname node cat printf sh head; do alias $name=false; done\n";

interface Case {
  what: string;
  shell: string;
  files: Record<string, string>;
}

const WORKING: Case[] = [
  {
    what: "prints 64 KB without an end of line, control characters and on stderr",
    shell: "/bin/bash",
    files: { ".bashrc": `${BYTES_64_KB}; ${CONTROLS}; ${BYTES_64_KB} >&2\n` },
  },
  {
    what: "prints 64 KB of lines",
    shell: "/bin/bash",
    files: { ".bashrc": '/usr/bin/yes \'@paseo@ {"type":"ready"}\' | /usr/bin/head -c 65536\n' },
  },
  {
    what: "has aliases and functions for everything, and exports them",
    shell: "/bin/bash",
    files: {
      ".bashrc": `${POSIX_ALIASES}printf() { false; }; node() { false; }; export -f printf node\n`,
    },
  },
  {
    what: "sets noclobber, nounset and errexit, and exports that",
    shell: "/bin/bash",
    files: { ".bashrc": "set -o noclobber -o nounset -o errexit; export SHELLOPTS\n" },
  },
  { what: "takes three seconds", shell: "/bin/bash", files: { ".bashrc": "sleep 3\n" } },
  { what: "reads a line of its input", shell: "/bin/bash", files: { ".bashrc": "read -r answer; echo $answer\n" } },
  { what: "leaves a PATH that leads nowhere", shell: "/bin/bash", files: { ".bashrc": "PATH=/nowhere\n" } },
  { what: "puts zsh in its place", shell: "/bin/bash", files: { ".bashrc": "exec /usr/bin/zsh\n" } },
  { what: "puts dash in its place", shell: "/bin/bash", files: { ".bashrc": "exec /bin/dash\n" } },
  {
    what: "does all of that",
    shell: "/usr/bin/zsh",
    files: {
      ".zshenv": `${BYTES_64_KB}; ${CONTROLS}; ${BYTES_64_KB} >&2
for name in uname node cat printf; do alias $name=false; alias -g $name=false; done
read -r -t 0.1 answer; sleep 1; setopt noclobber nounset errexit\n`,
    },
  },
  {
    what: "does all of that in its login",
    shell: "/bin/dash",
    files: { ".profile": `${BYTES_64_KB}; ${CONTROLS}; ${POSIX_ALIASES}sleep 1; set -euC\n` },
  },
  {
    what: "does all of that",
    shell: "/usr/bin/fish",
    files: {
      ".config/fish/config.fish": `${BYTES_64_KB}; ${CONTROLS}; ${BYTES_64_KB} >&2
for name in uname node cat printf; function $name; false; end; alias $name=false; end; sleep 1\n`,
    },
  },
  {
    what: "does all of that",
    shell: "/usr/bin/tcsh",
    files: {
      ".tcshrc": `${BYTES_64_KB}; ${CONTROLS}
alias uname false; alias node false; alias cat false; alias printf false; set noclobber; sleep 1\n`,
    },
  },
  { what: "understands words only", shell: WORD_SHELL, files: {} },
];

const REFUSED: (Case & { message: RegExp })[] = [
  {
    what: "reads all of its input",
    shell: "/bin/bash",
    files: { ".bashrc": "/bin/cat >/dev/null\n" },
    message:
      /^127\.0\.0\.1 did not run \/bin\/sh within 3 s\. .* start-up file stands in the way \(it must neither read input, nor/,
  },
  {
    what: "puts fish in its place",
    shell: "/bin/bash",
    files: { ".bashrc": "exec /usr/bin/fish\n" },
    message:
      /^127\.0\.0\.1 did not run \/bin\/sh within 3 s\. .* start-up file stands in the way \(it must neither read input, nor/,
  },
  {
    what: "puts tmux in its place",
    shell: "/bin/bash",
    files: { ".bashrc": `exec ${FAKE_TMUX}\n` },
    message:
      /^The session on 127\.0\.0\.1 ended before \/bin\/sh ran in it \(it said: open terminal failed: not a terminal\)\. /,
  },
  {
    what: "ends",
    shell: "/bin/bash",
    files: { ".bashrc": "printf '\\033[31mno more\\n'; exit 3\n" },
    message: /^The session on 127\.0\.0\.1 ended before \/bin\/sh ran in it \(it said: no more\)\. /,
  },
];

describePrivileged.concurrent("start-up files", () => {
  let host: BuildHost;
  let source: string;
  beforeAll(async () => {
    host = await BuildHost.start(ACCOUNT_HOST);
    source = host.emptyFolder();
    writeFileSync(join(source, "file"), "content\n");
  });
  afterAll(() => host?.stop());

  for (const { what, shell, files } of WORKING) {
    describeWithShell(shell)(shell.replace(/.*\//, ""), () => {
      it.concurrent(what, async () => {
        const account = addAccount(host, { shell });
        for (const [path, text] of Object.entries(files)) account.write(path, text);
        const client = host.client(account.options);
        try {
          await client.create("w", { kind: "directory", path: source });
          const script = "id -un; cat file; echo error >&2; exit 3";
          const { code, stdout, stderr } = await client.execute("w", ["/bin/sh", "-c", script]);
          expect([code, stdout.toString("utf8"), stderr.toString("utf8")]).toEqual([
            3,
            `${account.name}\ncontent\n`,
            "error\n",
          ]);
          const stdio = { kind: "pty", rows: 11, cols: 77 };
          const terminal = await client.exec("w", { argv: ["/bin/stty", "size"], stdio }).result();
          expect([terminal.code, terminal.stdout.toString("utf8")]).toEqual([0, "11 77\r\n"]);
        } finally {
          await client.close();
          await account.remove();
        }
      });
    });
  }

  for (const { what, shell, files, message } of REFUSED) {
    it.concurrent(`say why it cannot work: ${shell.replace(/.*\//, "")} ${what}`, async () => {
      const account = addAccount(host, { shell });
      for (const [path, text] of Object.entries(files)) account.write(path, text);
      const client = host.client({ ...account.options, connectTimeoutMs: 3000 });
      try {
        const { code, stdout, stderr } = await client.operation(["inspect", "--workspace-id", "w"]);
        expect([code, stdout]).toEqual([1, ""]);
        expect(stderr).toMatch(message);
        expect(stderr).toMatch(/^[^\n]* \[agent-start-failed\]\n$/);
      } finally {
        await client.close();
        await account.remove();
      }
    });
  }
});

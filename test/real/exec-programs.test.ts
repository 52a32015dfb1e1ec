import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { BuildHost } from "../support/build-host.ts";
import { describeWithPrograms } from "../support/requirements.ts";
import type { RuntimeClient } from "../support/runtime.ts";
import { PATH } from "../support/side-by-side.ts";
import { Terminal } from "../support/terminal.ts";

/** Programs that ask much of a terminal: a shell with job control, an editor, a pager, a terminal multiplexer. */
describeWithPrograms(
  "bash",
  "less",
  "tmux",
  "vim",
)("on a terminal", () => {
  let host: BuildHost;
  let client: RuntimeClient;
  let folder: string;
  beforeAll(async () => {
    host = await BuildHost.start();
    client = host.client();
    folder = host.emptyFolder();
    await client.create("w", { kind: "directory", path: host.emptyFolder() });
  });
  afterAll(() => host?.stop());

  const ENTER_ALTERNATE_SCREEN = "\x1b[?1049h";
  const LEAVE_ALTERNATE_SCREEN = "\x1b[?1049l";
  const CTRL_C = "\x03";
  const CTRL_D = "\x04";
  const CTRL_Z = "\x1a";
  const ESCAPE = "\x1b";

  function open(argv: string[], env: Record<string, string> = {}): Terminal {
    return new Terminal(client, "w", argv, {
      env: { PATH, TERM: "xterm-256color", LC_ALL: "C.UTF-8", HOME: folder, ...env },
    });
  }

  it("bash has job control", async () => {
    const terminal = open(["bash", "--norc", "--noprofile", "-i"], { PS1: "ready> ", HISTFILE: "/dev/null" });
    await terminal.sees("ready> ");
    terminal.type("sleep 1000\r");
    await terminal.sees("sleep 1000\r\n");
    terminal.type(CTRL_C);
    await terminal.sees("ready> ");
    terminal.type("echo status $?\r");
    await terminal.sees("status 130\r\n");

    terminal.type("cat\r");
    await terminal.sees("cat\r\n");
    terminal.type("first\r");
    await terminal.sees("first\r\nfirst\r\n");
    terminal.type(CTRL_Z);
    await terminal.sees("Stopped");
    await terminal.sees("ready> ");
    terminal.type("jobs; fg\r");
    await terminal.sees("Stopped");
    await terminal.sees("\r\ncat\r\n");
    terminal.type("second\r");
    await terminal.sees("second\r\nsecond\r\n");
    terminal.type(CTRL_D);
    await terminal.sees("ready> ");
    terminal.type(CTRL_D);
    expect((await terminal.rest()).toString()).toContain("exit");
    expect(await terminal.result()).toMatchObject({ code: 0, signal: null });
  });

  it("vi edits a file on the alternate screen", async () => {
    const file = join(folder, "edited");
    const terminal = open(["vi", "-u", "NONE", "-N", "-n", file]);
    await terminal.sees(ENTER_ALTERNATE_SCREEN);
    terminal.type("igrüße 漢字");
    await terminal.sees("漢字");
    terminal.type(`${ESCAPE}:set lines? columns?\r`);
    await terminal.sees("lines=24");
    await terminal.resized(terminal.resize(40, 100));
    terminal.type(":set lines? columns?\r");
    await terminal.sees("lines=40");
    terminal.type("\r:wq\r");
    expect((await terminal.rest()).toString()).toContain(LEAVE_ALTERNATE_SCREEN);
    expect((await terminal.result()).code).toBe(0);
    expect(readFileSync(file, "utf8")).toBe("grüße 漢字\n");
  });

  it("less pages, and stops when it is told to", async () => {
    const file = join(folder, "paged");
    writeFileSync(file, Array.from({ length: 1000 }, (_, line) => `line ${line + 1}\n`).join(""));
    const terminal = open(["less", file]);
    await terminal.sees(ENTER_ALTERNATE_SCREEN);
    await terminal.sees("line 23");
    terminal.type("G");
    await terminal.sees("line 1000");
    terminal.type("q");
    expect((await terminal.rest()).toString()).toContain(LEAVE_ALTERNATE_SCREEN);
    expect((await terminal.result()).code).toBe(0);
  });

  it("tmux runs a shell in a terminal of its own", async () => {
    const sockets = join(folder, "tmux");
    mkdirSync(sockets);
    const argv = ["tmux", "-u", "-f", "/dev/null", "new-session", "PS1='inside> ' sh"];
    const terminal = open(argv, { TMUX_TMPDIR: sockets, SHELL: "/bin/sh" });
    await terminal.sees("inside> ");
    terminal.type("echo $((40 + 2)) $(stty size)\r");
    await terminal.sees("42 23 80");
    await terminal.resized(terminal.resize(50, 120));
    // tmux takes its time to resize what is inside.
    terminal.type("while [ \"$(stty size)\" != '49 120' ]; do sleep 0.05; done; echo $((6 * 7 * 10))\r");
    await terminal.sees("420");
    terminal.type("exit\r");
    expect((await terminal.rest()).toString()).toContain(LEAVE_ALTERNATE_SCREEN);
    expect((await terminal.result()).code).toBe(0);
  });
});

import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ACCOUNT_HOST, addAccount } from "../support/accounts.ts";
import { BuildHost, brokerPids, failureCode, outputOf } from "../support/build-host.ts";
import { type FarHost, openFarHost } from "../support/far-host.ts";
import { processesWith, residentMemory, untilGone } from "../support/processes.ts";
import { describeReal, describeWithShell } from "../support/requirements.ts";
import { describeBytes, forEach, lifecycle, Output, PATH } from "../support/side-by-side.ts";
import { Terminal } from "../support/terminal.ts";

const MEBIBYTE = 1024 * 1024;

describeReal("a server that forwards no streams", () => {
  const settings = ["AllowTcpForwarding no", "AllowStreamLocalForwarding no", "DisableForwarding yes"];
  it.each(settings.flatMap((line) => [[line], [line, "MaxSessions 1"]]))(
    "is reached over one session: %s %s",
    async (...lines) => {
      const host = await BuildHost.start({ config: lines.filter((line) => line !== undefined) });
      try {
        const client = host.client();
        const source = host.emptyFolder();
        writeFileSync(join(source, "file"), "content");
        await client.create("w", { kind: "directory", path: source });
        expect(await outputOf(client, "w", ["cat", "file"])).toBe("content");
        // One session for all of them; the one that started the agent has ended.
        expect(host.sshd.log().match(/Starting session: /g)).toHaveLength(2);
        const again = await forEach([1, 2, 3, 4, 5, 6, 7, 8], 8, () => outputOf(client, "w", ["cat", "file"]));
        expect(new Set(again)).toEqual(new Set(["content"]));
        expect(host.sshd.log().match(/Starting session: /g)).toHaveLength(2);

        // What ends the agent leaves a bridge to nobody, which may not keep its place from the next agent's start.
        await host.killAgents();
        expect(await outputOf(client, "w", ["cat", "file"])).toBe("content");
      } finally {
        await host.stop();
      }
    },
  );

  describe("of one session", () => {
    let host: BuildHost;
    let far: FarHost;
    beforeAll(async () => {
      host = await BuildHost.start({ config: ["DisableForwarding yes", "MaxSessions 1"] });
      far = await openFarHost(host);
    });
    afterAll(async () => {
      await host?.stop();
      await far?.stop();
    });

    const bridges = () => processesWith(`bridge ${host.root}/run/`);

    it("carries 50 MB each way at once, a terminal beside them, and nobody keeps them in memory", async () => {
      const { client } = far;
      const terminal = new Terminal(client, "w", ["sh", "-c", "stty -echo; while read word; do stty size; done"]);
      const input = randomBytes(50 * MEBIBYTE);
      const running = client.execute("w", ["cat"], { input, env: { PATH } });
      for (let rows = 30; rows < 40; rows += 1) {
        await terminal.resized(terminal.resize(rows, 99));
        terminal.type("size\n");
        await terminal.sees(`${rows} 99\r\n`);
      }
      expect(describeBytes((await running).stdout)).toBe(describeBytes(input));
      terminal.type("\x04");
      expect((await terminal.result()).code).toBe(0);
      for (const pid of [...bridges(), ...brokerPids(client)]) expect(residentMemory(pid).most).toBeLessThan(160);
    });

    it("carries 30 executions at once", async () => {
      const client = host.client();
      await client.create("many", { kind: "directory", path: host.emptyFolder() });
      const numbers = Array.from({ length: 30 }, (_, number) => number);
      const results = await forEach(numbers, 30, async (number) => {
        const input = String(number).repeat(50_000);
        const { code, stdout, events } = await client.execute("many", ["sh", "-c", `cat; exit ${number}`], { input });
        return [code, stdout.toString() === input, events];
      });
      expect(results).toEqual(numbers.map((number) => [number, true, lifecycle(number, null)]));
    });

    it("is not held up by a wrapper that has stopped reading", async () => {
      const stopped = far.client.exec("w", { argv: ["cat", "/dev/zero"], env: { PATH }, collectOutput: false });
      await new Output(stopped.child.stdout!).reaches(MEBIBYTE);
      process.kill(stopped.child.pid!, "SIGSTOP");
      const input = randomBytes(16 * MEBIBYTE);
      const { stdout } = await far.client.execute("w", ["cat"], { input, env: { PATH } });
      expect(describeBytes(stdout)).toBe(describeBytes(input));
      process.kill(stopped.child.pid!, "SIGKILL");
      await stopped.result();
    });

    it.each<[string, () => Promise<void> | void]>([
      ["the link", () => far.proxy.cut()],
      ["the host's end", () => process.kill(bridges()[0]!, "SIGKILL")],
      [
        "the broker",
        async () => {
          const [broker] = brokerPids(far.client);
          process.kill(broker!, "SIGKILL");
          await untilGone(broker!);
        },
      ],
    ])("loses nothing and repeats nothing when it loses %s under load", async (_what, lose) => {
      far.proxy.rateLimit(32 * MEBIBYTE);
      const input = randomBytes(12 * MEBIBYTE);
      const exec = far.client.exec("w", { argv: ["cat"], env: { PATH }, collectOutput: false });
      const output = new Output(exec.child.stdout!);
      exec.stdin.end(input);
      for (const mebibytes of [2, 6]) {
        await output.reaches(mebibytes * MEBIBYTE);
        await lose();
      }
      expect(describeBytes(await output.rest())).toBe(describeBytes(input));
      const { code, signal } = await exec.result();
      expect({ code, signal, events: exec.events }).toEqual({ code: 0, signal: null, events: lifecycle(0, null) });
      far.proxy.rateLimit(undefined);
    });

    it("is left by the host's end with the connection", async () => {
      await far.client.inspect("w");
      const pids = bridges();
      expect(pids).not.toEqual([]);
      await far.client.run(["broker", "stop"]);
      await untilGone(...pids);
    });
  });
});

describeWithShell("/usr/bin/fish")("an account whose start-up files print a lot", () => {
  it("is reached over a bridge", async () => {
    const host = await BuildHost.start({ config: [...ACCOUNT_HOST.config, "DisableForwarding yes", "MaxSessions 1"] });
    const account = addAccount(host, { shell: "/usr/bin/fish", homeName: `it's a "home"` });
    try {
      const noise = "string repeat -n 4096 'PSRB noise@paseo'\nprintf 'a line without its end PSRB'\necho noise >&2\n";
      account.write(".config/fish/config.fish", noise);
      const client = host.client(account.options);
      await client.create("w", { kind: "directory", path: host.emptyFolder() });
      expect(await outputOf(client, "w", ["id", "-un"])).toBe(account.name);
      await client.close();
    } finally {
      await account.remove();
      await host.stop();
    }
  });
});

describeReal("a server that runs no /bin/sh", () => {
  it.each([
    ["ForceCommand internal-sftp", "agent-start-failed", "ForceCommand"],
    ["ForceCommand echo fixed", "agent-start-failed", "it said: fixed"],
    ["ForceCommand /usr/sbin/nologin", "agent-start-failed", "nologin"],
    ["ForceCommand /bin/false", "agent-start-failed", "false"],
    ["MaxSessions 0", "session-refused", "MaxSessions"],
  ])("says what stands in the way: %s", async (line, code, word) => {
    const host = await BuildHost.start({ config: [line] });
    try {
      const result = await host.client().operation(["inspect", "--workspace-id", "w"]);
      expect(failureCode(result)).toBe(code);
      expect(result.stderr).toContain(word);
    } finally {
      await host.stop();
    }
  });

  it("matters not when it is a terminal that it gives nobody", async () => {
    const host = await BuildHost.start({ config: ["PermitTTY no", "AllowStreamLocalForwarding no"] });
    try {
      const client = host.client();
      await client.create("w", { kind: "directory", path: host.emptyFolder() });
      const terminal = client.exec("w", { argv: ["tty"], stdio: { kind: "pty", rows: 2, cols: 20 } });
      expect((await terminal.result()).code).toBe(0);
    } finally {
      await host.stop();
    }
  });
});

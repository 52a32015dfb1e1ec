import { afterAll, beforeAll, expect, it } from "vitest";
import { BuildHost, brokerPids, execFailureCode } from "../support/build-host.ts";
import { killAgents, untilGone } from "../support/processes.ts";
import { describeReal } from "../support/requirements.ts";
import type { Exec, RuntimeClient } from "../support/runtime.ts";
import { forEach, lifecycle, PATH } from "../support/side-by-side.ts";

/** Many executions at once over one connection to a stock sshd, and what the loss of one process means to all others. */
describeReal("200 executions", { timeout: 120_000 }, () => {
  let host: BuildHost;
  let client: RuntimeClient;
  beforeAll(async () => {
    host = await BuildHost.start();
    client = host.client();
    await client.create("w", { kind: "directory", path: host.emptyFolder() });
  });
  afterAll(() => host?.stop());

  const COUNT = 200;
  const STARTING_AT_ONCE = 50;
  const KILLED = 20;

  interface Live {
    exec: Exec;
    pid: number;
  }

  /** Echoes lines with their number, and ends with that number at the end of its input. */
  const SCRIPT = 'echo $$; while read line; do echo "$1 $line"; done; exit $(($1 % 256))';

  async function start(number: number): Promise<Live> {
    const exec = client.exec("w", { argv: ["sh", "-c", SCRIPT, "sh", String(number)], env: { PATH } });
    await exec.outputContains("\n");
    return { exec, pid: Number(exec.output) };
  }

  async function echoes({ exec }: Live, number: number, word: string): Promise<void> {
    exec.stdin.write(`${word}\n`);
    await exec.outputContains(`\n${number} ${word}\n`);
  }

  it("live side by side, and outlive the broker; killed wrappers and agents take down their own alone", async () => {
    const logins = host.logins();
    const numbers = Array.from({ length: COUNT }, (_, number) => number);
    const live = await forEach(numbers, STARTING_AT_ONCE, start);
    await Promise.all(live.map((one, number) => echoes(one, number, "together")));
    expect(host.logins() - logins).toBeLessThanOrEqual(1);

    const [broker] = brokerPids(client);
    process.kill(broker!, "SIGKILL");
    await untilGone(broker!);
    await Promise.all(live.map((one, number) => echoes(one, number, "on")));
    expect(brokerPids(client)).toHaveLength(1);

    const killed = live.splice(COUNT - KILLED, KILLED);
    for (const { exec } of killed) process.kill(-exec.child.pid!, "SIGKILL");
    await untilGone(...killed.map(({ pid }) => pid));
    await Promise.all(live.map((one, number) => echoes(one, number, "untouched")));

    const half = live.splice(live.length / 2);
    for (const { exec } of half) exec.stdin.end();
    for (const [index, { exec, pid }] of half.entries()) {
      const number = live.length + index;
      const { code, stdout, events } = await exec.result();
      const output = `${pid}\n${number} together\n${number} on\n${number} untouched\n`;
      expect([code, stdout.toString(), events]).toEqual([number % 256, output, lifecycle(number % 256, null)]);
    }

    await killAgents(host.root);
    const results = await Promise.all(live.map(({ exec }) => exec.result()));
    const codes = results.map((result) => execFailureCode({ ...result, stdout: Buffer.alloc(0) }));
    expect(codes).toEqual(codes.map(() => "execution-lost"));
    expect((await client.inspect("w")).status).toBe("ready");
    await untilGone(...live.map(({ pid }) => pid));
    expect((await client.execute("w", ["echo", "anew"])).stdout.toString()).toBe("anew\n");
  });
});

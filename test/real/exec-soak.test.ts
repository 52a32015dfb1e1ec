import { readdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { median } from "../bench/measure.ts";
import { BuildHost, brokerPids, namesIn } from "../support/build-host.ts";
import { form } from "../support/form.ts";
import { processesIn, residentMemory, untilGone } from "../support/processes.ts";
import { describeReal } from "../support/requirements.ts";
import type { RuntimeClient } from "../support/runtime.ts";
import { lifecycle, PATH } from "../support/side-by-side.ts";
import { Terminal } from "../support/terminal.ts";
import { write } from "../workspace/fixture.ts";

/** Workspaces come and go for long, and nothing of them stays: no process, no socket, no file, no memory. */
describeReal("a soak", () => {
  const ROUNDS = form(25, 1000);
  /** Rounds after which code is compiled and caches are filled. */
  const WARM = form(8, 200);
  /**
   * What the agent may grow by from there on, as the median of the first and the last quarter of what follows: between
   * two collections of its garbage it is larger or smaller by a tenth. The short form has hardly begun to collect any.
   */
  const GROWTH = form(1.25, 1.05);

  /** Number of a round in which nothing is killed. */
  const UNDISTURBED = 2;
  /** Descriptors of the agent and the broker for channels that nobody uses yet. */
  const RESERVE = 8;

  let host: BuildHost;
  let client: RuntimeClient;
  beforeAll(async () => {
    host = await BuildHost.start();
    client = host.client();
    write(join(host.path("source"), "file"), "content\n");
  });
  afterAll(() => host?.stop());

  async function round(number: number): Promise<void> {
    const id = `round-${number}`;
    await client.create(id, { kind: "directory", path: host.path("source") });
    const terminal = new Terminal(client, id, ["sh", "-c", "echo $$; read line; exit 5"]);
    const pipes = client.execute(id, ["sh", "-c", "cat file; head -c 300000 /dev/zero; exit 4"], { env: { PATH } });
    const left = client.exec(id, { argv: ["sh", "-c", "echo $$; exec sleep 1000"], env: { PATH } });
    await Promise.all([terminal.line(), left.outputContains("\n")]);
    const pid = Number(left.output);
    if (number % 3 === 0) process.kill(-left.child.pid!, "SIGKILL");
    else if (number % 6 === 1) host.sshd.killSessions();
    else expect((await client.signal(id, left.execId, "SIGKILL")).code).toBe(0);
    // Whatever became of the link.
    terminal.type("\r");
    expect((await terminal.result()).code).toBe(5);
    expect((await pipes).events).toEqual(lifecycle(4, null));
    await client.destroy(id);
    // One whose link was lost may still be on its way back.
    await left.result();
    await untilGone(pid);
  }

  const descriptors = (pid: number) => readdirSync(`/proc/${pid}/fd`).length;

  it(`of ${ROUNDS} rounds leaves nothing behind`, { timeout: form(180_000, 7_200_000) }, async () => {
    await round(UNDISTURBED);
    const [agent, broker] = [host.agentPids()[0]!, brokerPids(client)[0]!];
    const open = () => descriptors(agent) + descriptors(broker);
    const openAtFirst = open();
    for (let number = UNDISTURBED + 1; number < WARM; number += 1) await round(number);
    const sockets = () => [namesIn(join(host.root, "run")), namesIn(client.brokerFolder)];
    const before = { listing: host.listing(), sockets: sockets() };
    const memory: number[] = [];

    for (let number = WARM; number < ROUNDS; number += 1) {
      await round(number);
      memory.push(residentMemory(agent).now);
    }

    expect([host.agentPids(), brokerPids(client)]).toEqual([[agent], [broker]]);
    expect(processesIn(join(host.root, "workspaces"))).toEqual([]);
    // Half of a lost connection is closed with some delay, and some channels are kept in reserve.
    await expect.poll(open, { timeout: 15_000 }).toBeLessThanOrEqual(openAtFirst + RESERVE);
    expect(host.listing()).toEqual(before.listing);
    expect(sockets()).toEqual(before.sockets);
    const quarter = Math.floor(memory.length / 4);
    expect(median(memory.slice(-quarter))).toBeLessThan(median(memory.slice(0, quarter)) * GROWTH);
  });
});

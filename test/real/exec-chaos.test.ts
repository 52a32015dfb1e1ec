import { createCipheriv, createHash, type Hash, randomBytes, randomInt } from "node:crypto";
import { once } from "node:events";
import { afterAll, beforeAll, expect, it } from "vitest";
import { BuildHost, brokerPids } from "../support/build-host.ts";
import { type Cut, makeCut, randomCuts } from "../support/chaos.ts";
import { type FarHost, KEEPALIVE_MS, openFarHost } from "../support/far-host.ts";
import { form } from "../support/form.ts";
import { residentMemory } from "../support/processes.ts";
import { describeReal } from "../support/requirements.ts";
import type { Exec } from "../support/runtime.ts";
import { fixture, lifecycle, PATH } from "../support/side-by-side.ts";
import { Terminal } from "../support/terminal.ts";

/**
 * A stream out, a stream in and a person at a terminal, over a link that breaks again and again in every way.
 * CHAOS_SEED repeats a run.
 */
describeReal("chaos", () => {
  const MEBIBYTE = 1024 * 1024;
  const OUT_BYTES = form(64, 1024) * MEBIBYTE;
  const IN_BYTES = form(16, 256) * MEBIBYTE;
  const CUTS = form(20, 200);
  /** So that the streams last as long as the cuts. Bytes per second. */
  const RATE = form(24, 32) * MEBIBYTE;
  /** A window of 2 MiB is full after a fraction of that. Milliseconds. */
  const LONGEST_CUT_MS = form(1200, 4000);
  /** Three silent keepalive intervals and the one that had begun. */
  const NOTICED_MS = 4 * KEEPALIVE_MS;
  /** Two seconds, and what a machine adds that runs other tests beside this one. */
  const RESUMED_MS = NOTICED_MS + form(2000 + 3000, 2000);
  const CAP_MEBIBYTES = 128;
  const seed = Number(process.env.CHAOS_SEED ?? randomInt(2 ** 31));

  let host: BuildHost;
  let far: FarHost;
  beforeAll(async () => {
    host = await BuildHost.start();
    far = await openFarHost(host);
  });
  afterAll(async () => {
    await host?.stop();
    await far?.stop();
  });

  /** Something that makes progress all the time; `count` is how far it is. */
  class Activity {
    count = 0;
    done = false;
    #onProgress: () => void = () => {};

    advance(by: number): void {
      this.count += by;
      this.#onProgress();
    }

    finish(): void {
      this.done = true;
      this.#onProgress();
    }

    async reaches(count: number): Promise<void> {
      while (!this.done && this.count < count) {
        await new Promise<void>((resolve) => {
          this.#onProgress = resolve;
        });
      }
    }

    next(): Promise<void> {
      return this.reaches(this.count + 1);
    }
  }

  async function readAll(exec: Exec, hash: Hash, activity: Activity): Promise<void> {
    for await (const bytes of exec.child.stdout!) {
      hash.update(bytes);
      activity.advance(bytes.length);
    }
    activity.finish();
  }

  async function writeAll(exec: Exec, hash: Hash): Promise<void> {
    const source = createCipheriv("aes-128-ctr", randomBytes(16), randomBytes(16));
    const zeros = Buffer.alloc(MEBIBYTE);
    for (let left = IN_BYTES; left > 0; left -= zeros.length) {
      const bytes = source.update(zeros);
      hash.update(bytes);
      if (!exec.stdin.write(bytes)) await once(exec.stdin, "drain");
    }
    exec.stdin.end();
  }

  /** Types words and waits for each to come back, until told to stop. @returns how many */
  async function sitAt(terminal: Terminal, activity: Activity): Promise<number> {
    let words = 0;
    for (; !activity.done; words += 1) {
      const word = randomBytes(24);
      if (words % 10 === 0) terminal.resize(20 + (words % 50), 80);
      terminal.type(word);
      expect(await terminal.bytes(word.length)).toEqual(word);
      activity.advance(1);
    }
    return words;
  }

  it.concurrent("a link that is dead in silence is noticed within 20 s with the default options", {
    timeout: 60_000,
  }, async () => {
    const standard = await openFarHost(host, { root: host.path("other-root"), keepaliveIntervalMs: undefined });
    try {
      const exec = standard.client.exec("w", { argv: ["cat"], env: { PATH } });
      exec.stdin.write("before\n");
      await exec.outputContains("before");
      standard.proxy.blackhole(true);
      standard.proxy.blackhole(false);
      const start = performance.now();
      exec.stdin.end("after\n");
      expect((await exec.result()).stdout.toString()).toBe("before\nafter\n");
      // And a login on a busy machine.
      expect(performance.now() - start).toBeLessThan(20_000 + 3000);
    } finally {
      await standard.stop();
    }
  });

  const name = `${CUTS} cuts take nothing away and put nothing in (seed ${seed})`;
  it.concurrent(name, { timeout: form(180_000, 3_600_000) }, async () => {
    const { proxy, client } = far;
    const env = { PATH };
    const out = client.exec("w", {
      argv: [process.execPath, fixture("random-bytes.mjs"), String(OUT_BYTES)],
      env,
      collectOutput: false,
    });
    const inward = client.exec("w", { argv: ["sha256sum"], env });
    const terminal = new Terminal(client, "w", ["sh", "-c", "stty raw -echo; echo ready; exec cat"]);
    await Promise.all([out.started(), inward.started(), terminal.sees("ready\n")]);
    proxy.rateLimit(RATE);

    const [outHash, inHash] = [createHash("sha256"), createHash("sha256")];
    const [outward, typing] = [new Activity(), new Activity()];
    const reading = readAll(out, outHash, outward);
    const writing = writeAll(inward, inHash);
    const sitting = sitAt(terminal, typing);

    const resumed: (Cut & { resumedMs: number })[] = [];
    for (const [index, cut] of randomCuts(seed, CUTS, LONGEST_CUT_MS).entries()) {
      await outward.reaches((OUT_BYTES * index) / CUTS);
      await makeCut(proxy, cut);
      const healed = performance.now();
      await Promise.all([outward.next(), typing.next()]);
      resumed.push({ ...cut, resumedMs: Math.round(performance.now() - healed) });
    }
    for (const pid of [host.agentPids()[0]!, brokerPids(client)[0]!, terminal.exec.child.pid!]) {
      expect(residentMemory(pid).most).toBeLessThan(CAP_MEBIBYTES);
    }

    await Promise.all([reading, writing]);
    typing.finish();
    const words = await sitting;
    const ended = await out.result();
    expect(ended.stderr.toString()).toBe(outHash.digest("hex"));
    expect([ended.code, ended.events]).toEqual([0, lifecycle(0, null)]);
    const summed = await inward.result();
    expect(summed.stdout.toString()).toBe(`${inHash.digest("hex")}  -\n`);
    expect([summed.code, summed.events]).toEqual([0, lifecycle(0, null)]);
    terminal.signal("SIGTERM");
    const { events } = await terminal.result();
    const ids = events.flatMap((event) => (event.type === "resized" ? [event.id] : []));
    expect(ids).toEqual(Array.from({ length: Math.ceil(words / 10) }, (_, index) => index + 1));
    expect(resumed.filter(({ resumedMs }) => resumedMs > RESUMED_MS)).toEqual([]);
  });
});

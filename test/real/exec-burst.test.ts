import { createHash, randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { BuildHost } from "../support/build-host.ts";
import { form } from "../support/form.ts";
import { describeReal } from "../support/requirements.ts";
import type { Exec, RuntimeClient } from "../support/runtime.ts";
import { forEach, PATH } from "../support/side-by-side.ts";

/** Output that is still on its way when the command has ended is whole, however slowly it is read. */
describeReal("4 MiB and then the end", () => {
  const BYTES = 4 * 1024 * 1024;
  const RUNS = form(20, 500);
  const AT_ONCE = 10;
  const CHUNK_BYTES = 64 * 1024;

  let host: BuildHost;
  let client: RuntimeClient;
  let file: string;
  let hash: string;
  beforeAll(async () => {
    host = await BuildHost.start();
    client = host.client();
    file = host.path("burst");
    const bytes = randomBytes(BYTES);
    hash = createHash("sha256").update(bytes).digest("hex");
    writeFileSync(file, bytes);
    await client.create("w", { kind: "directory", path: host.emptyFolder() });
  });
  afterAll(() => host?.stop());

  /** @param pause comes before each chunk that is read; `run` is the number of the run */
  async function burst(stdio: object, run: number, pause: (run: number, chunk: number) => Promise<void>) {
    const exec = client.exec("w", {
      argv: ["sh", "-c", `[ -t 1 ] && stty raw; cat ${file}; exit 7`],
      env: { PATH },
      stdio,
      collectOutput: false,
    });
    const digest = createHash("sha256");
    const bytes = await readSlowly(exec, (chunk) => pause(run, chunk), digest);
    const { code, signal, events } = await exec.result();
    return { bytes, hash: digest.digest("hex"), code, signal, events: events.map((event) => event.type) };
  }

  async function readSlowly(
    exec: Exec,
    pause: (chunk: number) => Promise<void>,
    sink: { update(bytes: Buffer): void },
  ) {
    const stdout = exec.child.stdout!;
    let count = 0;
    let next = 0;
    for await (const bytes of stdout) {
      for (; count >= next; next += CHUNK_BYTES) await pause(next / CHUNK_BYTES);
      sink.update(bytes);
      count += bytes.length;
    }
    return count;
  }

  const kinds = [
    ["pipes", { kind: "pipes" }],
    ["a terminal", { kind: "pty", rows: 24, cols: 80 }],
  ] as const;
  const readers = {
    "a fast reader": async () => {},
    // A command with pipes has ended long before its last bytes are fetched, with every length of that wait.
    "a slow reader": async (run: number, chunk: number) => {
      if (chunk === 0) await setTimeout((run % 4) * 750);
      else await setTimeout(run % 7);
    },
  };
  const cases = kinds.flatMap(([kind, stdio]) =>
    Object.entries(readers).map(([name, reader]) => ({ kind, stdio, name, reader })),
  );

  it.each(cases)("arrive through $kind for $name", { timeout: form(120_000, 3_600_000) }, async ({ stdio, reader }) => {
    const runs = Array.from({ length: RUNS }, (_, run) => run);
    const results = await forEach(runs, AT_ONCE, (run) => burst(stdio, run, reader));
    const whole = { bytes: BYTES, hash, code: 7, signal: null, events: ["started", "eof", "exit"] };
    expect(results).toEqual(runs.map(() => whole));
  });
});

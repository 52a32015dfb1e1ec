import { readdirSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it, vi } from "vitest";
import type { RuntimeError } from "../../src/wire/errors.ts";
import type { ExecRequest } from "../../src/wire/from-client.ts";
import type { RuntimeContext } from "../../src/wrapper/context.ts";
import { ExecutionClient, type ExecutionEvents, type OutputName } from "../../src/wrapper/exec/execution-client.ts";
import { AgentProcess } from "../remote-agent/agent-process.ts";
import { execRequest, statusOf } from "../remote-agent/client.ts";
import { bundleProgram } from "../support/bundle.ts";
import { FakeBroker, Link } from "./fake-broker.ts";

// How long it waits before it dials again after links without an answer is nothing that a test should wait for.
vi.mock("node:timers/promises", () => ({ setTimeout: () => Promise.resolve() }));

const program = bundleProgram("remote-agent/main.ts");
let agent: AgentProcess;
beforeAll(async () => {
  const cleanUps: (() => void)[] = [];
  agent = await AgentProcess.start(program, { cleanUp: (action) => cleanUps.push(action) });
  return () => {
    for (const action of cleanUps) action();
  };
});

const CONTEXT = {
  options: { host: "h" },
  rawOptions: { host: "h" },
  caller: {},
  progress: () => {},
} as unknown as RuntimeContext;

/** An application around an execution: it has input to give, and takes output when a test lets it. */
class Application implements ExecutionEvents {
  readonly client: ExecutionClient;
  readonly request: ExecRequest;
  readonly log: string[] = [];
  readonly received: Record<OutputName, Buffer[]> = { stdout: [], stderr: [] };
  readonly outcome: Promise<unknown>;
  /** Whether output is consumed as soon as it comes. */
  eager = true;
  #unconsumed: [OutputName, number][] = [];
  #input: Buffer[] = [];
  #finish: (outcome: unknown) => void = () => {};

  constructor(argv: string[], changes: Partial<ExecRequest> = {}) {
    this.request = execRequest(agent.addWorkspace(), argv, changes);
    this.client = new ExecutionClient(CONTEXT, this.request, this);
    this.outcome = new Promise((resolve) => {
      this.#finish = resolve;
    });
  }

  start(input: Buffer): this {
    for (let at = 0; at < input.length; at += 50_000) this.#input.push(input.subarray(at, at + 50_000));
    void this.client.run();
    this.onInputWritable();
    return this;
  }

  output(name: OutputName): Buffer {
    return Buffer.concat(this.received[name]);
  }

  consumeAll(): void {
    this.eager = true;
    for (const [output, count] of this.#unconsumed.splice(0)) this.client.consumed(output, count);
  }

  onStarted(): void {
    this.log.push("started");
  }

  onControlsAcknowledged(): void {}

  onResized(id: number): void {
    this.log.push(`resized ${id}`);
  }

  onOutputEnd(): void {}

  onOutput(output: OutputName, bytes: Buffer): void {
    this.received[output].push(Buffer.from(bytes));
    if (this.eager) setImmediate(() => this.client.consumed(output, bytes.length));
    else this.#unconsumed.push([output, bytes.length]);
  }

  onExit(code: number | null, signal: string | null): void {
    this.log.push("exit");
    this.#finish({ code, signal });
  }

  onFailed(error: RuntimeError): void {
    this.log.push("failed");
    this.#finish(error);
  }

  onInputWritable(): void {
    while (this.#input.length > 0 && !this.client.inputFull) this.client.writeInput(this.#input.shift()!);
    if (this.#input.length === 0) this.client.endInput();
  }

  onInputRefused(): void {
    this.log.push("refused");
    this.#input = [];
  }
}

/** Bytes that are different everywhere. */
function pattern(length: number): Buffer {
  const bytes = Buffer.alloc(length);
  for (let at = 0; at + 4 <= length; at += 4) bytes.writeUInt32LE((at * 2_654_435_761) >>> 0, at);
  return bytes;
}

const random = (least: number, most: number) => least + Math.floor(Math.random() * (most - least));

/** Waits until the agent has forgotten everything. */
async function untilForgotten(): Promise<void> {
  while ((await statusOf(agent)).executions > 0) await new Promise((resolve) => setTimeout(resolve, 10));
}

describe("an execution over a link that breaks again and again", () => {
  it("loses and repeats no byte in any direction, and tells its exit once", async () => {
    const cuts: { up: number; down: number }[] = [];
    const broker = await FakeBroker.start((dial) => {
      const limits = { up: random(3000, 900_000), down: random(3000, 900_000) };
      cuts.push(limits);
      new Link(dial, agent.socketPath, limits);
    });
    const input = pattern(3_000_001);
    const application = new Application(["/bin/bash", "--norc", "-c", "tee >(exec cat >&2); wait $!; exit 7"]).start(
      input,
    );
    const outcome = await application.outcome;
    expect(outcome, `the cuts were ${JSON.stringify(cuts)}`).toEqual({ code: 7, signal: null });
    for (const name of ["stdout", "stderr"] as const) {
      expect(application.output(name).equals(input), `${name}; the cuts were ${JSON.stringify(cuts)}`).toBe(true);
    }
    expect(application.log.filter((line) => line !== "refused")).toEqual(["started", "exit"]);
    expect(broker.dials.length).toBeGreaterThan(3);
    await untilForgotten();
    expect(agent.log).toBe("");
  });

  it("says in each dial whose it is, and from the second one on how long to be patient", async () => {
    const broker = await FakeBroker.start((dial) => {
      const link = new Link(dial, agent.socketPath);
      if (broker.dials.length === 1) setTimeout(() => link.break(), 100);
    });
    const application = new Application(["/bin/cat"], { reconnectWindowMs: 5000 });
    void application.client.run();
    while (broker.dials.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
    application.client.endInput();
    expect(await application.outcome).toEqual({ code: 0, signal: null });
    const [first, second] = broker.dials.map(({ request }) => request);
    expect(first).toEqual({ type: "dial", options: { host: "h" }, caller: {}, session: application.request.session });
    expect(second).toMatchObject({ session: application.request.session });
    expect(second!.patienceMs).toBeGreaterThan(4000);
    expect(second!.patienceMs).toBeLessThanOrEqual(5000);
    await untilForgotten();
  });

  it("takes no more than a window from a workload whose output nobody consumes, however often it reconnects", async () => {
    const links: Link[] = [];
    await FakeBroker.start((dial) => {
      links.push(new Link(dial, agent.socketPath));
    });
    const application = new Application(["/bin/sh", "-c", "head -c 20000000 /dev/zero"]);
    application.eager = false;
    application.start(Buffer.alloc(0));
    for (let round = 1; round <= 4; round += 1) {
      let before = -1;
      // Nothing tells that nothing more comes; two looks with some time between them do.
      while (links.length < round || application.output("stdout").length !== before) {
        before = application.output("stdout").length;
        await new Promise((resolve) => setTimeout(resolve, 60));
      }
      links.at(-1)!.break();
    }
    expect(application.output("stdout").length).toBeLessThan(3 * 1024 * 1024);
    application.consumeAll();
    expect(await application.outcome).toEqual({ code: 0, signal: null });
    expect(application.output("stdout")).toHaveLength(20_000_000);
    await untilForgotten();
  });

  it("is not lost when the link breaks while its last output waits for a slow reader", async () => {
    const links: Link[] = [];
    await FakeBroker.start((dial) => {
      links.push(new Link(dial, agent.socketPath));
    });
    const application = new Application(["/bin/sh", "-c", "echo the end; exit 4"]);
    application.eager = false;
    application.start(Buffer.alloc(0));
    const live = join(agent.folderOf(application.request.workspaceId), "executions", "live");
    while (application.output("stdout").length < 8 || readdirSync(live).length > 0)
      await new Promise((resolve) => setTimeout(resolve, 5));
    // The exit has followed the output by now.
    await statusOf(agent);
    links[0]!.break();
    while (links.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
    // Time for the agent to forget the execution, and for the client to hear of it.
    for (let round = 0; round < 20; round += 1) await statusOf(agent);
    expect((await statusOf(agent)).executions).toBe(1);
    application.consumeAll();
    expect(await application.outcome).toEqual({ code: 4, signal: null });
    expect(application.output("stdout").toString()).toBe("the end\n");
    await untilForgotten();
  });

  it("ends when the client refuses an output, also over a second link", async () => {
    const links: Link[] = [];
    await FakeBroker.start((dial) => {
      links.push(new Link(dial, agent.socketPath));
    });
    const application = new Application(["/usr/bin/yes"]);
    application.eager = false;
    application.start(Buffer.alloc(0));
    while (application.output("stdout").length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    links[0]!.break();
    application.client.refuseOutput("stdout");
    application.consumeAll();
    // The descriptors of a workload are sockets: with bytes unread at their end, a writer gets ECONNRESET, not SIGPIPE.
    expect([
      { code: null, signal: "SIGPIPE" },
      { code: 1, signal: null },
    ]).toContainEqual(await application.outcome);
    await untilForgotten();
  });

  it("fails when the agent has given it up before it is asked again", async () => {
    const links: Link[] = [];
    let allow: () => void = () => {};
    const allowed = new Promise<void>((resolve) => {
      allow = resolve;
    });
    await FakeBroker.start((dial) => {
      if (links.length === 0) links.push(new Link(dial, agent.socketPath));
      else void allowed.then(() => links.push(new Link(dial, agent.socketPath)));
    });
    const application = new Application(["/bin/cat"], { reconnectWindowMs: 1 });
    void application.client.run();
    while (!application.log.includes("started")) await new Promise((resolve) => setTimeout(resolve, 5));
    links[0]!.break();
    await untilForgotten();
    allow();
    expect(await application.outcome).toMatchObject({ code: "execution-lost" });
    expect(application.log).toEqual(["started", "failed"]);
  });

  it("fails when every link is lost before an answer", async () => {
    const broker = await FakeBroker.start((dial) => {
      dial.socket.write('{"type":"connected"}\n', () => dial.socket.destroy());
    });
    const application = new Application(["/bin/cat"]);
    void application.client.run();
    expect(await application.outcome).toMatchObject({ code: "reconnect-window-exceeded" });
    expect(broker.dials.length).toBeGreaterThanOrEqual(10);
    expect(broker.dials.length).toBeLessThan(40);
  });

  it("fails with the agent's reason when it is refused", async () => {
    await FakeBroker.start((dial) => void new Link(dial, agent.socketPath));
    const application = new Application(["no-such-program"]).start(pattern(500_000));
    expect(await application.outcome).toMatchObject({ code: "program-not-found" });
    expect(application.log.filter((line) => line !== "refused")).toEqual(["failed"]);
  });
});

import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ERROR_CODES } from "../../src/wire/errors.ts";
import { doctorReport } from "../support/doctor.ts";
import type { Fault, Told } from "../support/faults/fault.ts";
import { OPERATION_FAULTS } from "../support/faults/operations.ts";
import { REACHING_FAULTS } from "../support/faults/reaching.ts";
import { FaultWorld } from "../support/faults/world.ts";
import { describePrivileged } from "../support/requirements.ts";

/** What can go wrong, and that a person is told so: at once, by a stable code, in a sentence that names the thing. */

const LIMIT_MS = 5_000;

/** Codes that no fault of this catalogue has, and why. */
const ELSEWHERE: Record<string, string> = {
  cancelled: "an operation that was ended from outside, of which nobody reads the answer",
  "connection-lost": "a link that ends in the middle of an operation; test/real/ssh-streams.test.ts",
  "execution-lost": "an agent that dies under a command; test/real/bad-input-exec.test.ts",
  "forwarding-refused": "a jump host that does not forward; test/real/ssh-proxy.test.ts",
  "git-failed": "a git that fails for a reason that nobody expects",
  "host-unsupported": "reserved",
  internal: "a mistake of ours",
  "keychain-unavailable": "only `auth` ends with it; test/real/ssh-auth-command.test.ts",
  "process-still-running": "a process that is stuck in the kernel",
  "reconnect-window-exceeded": "a link that stays away; test/real/exec-chaos.test.ts",
  "source-unreadable": "test/real/bad-input-workspaces.test.ts",
  "spawn-failed": "test/real/bad-input-exec.test.ts",
  "ssh-program-missing": "a machine without ssh; test/real/openssh-connect.test.ts",
  "stream-refused": "part of finding the agent; nobody gets to see it alone",
  "terminal-unavailable": "a host with musl",
  "wire-violation": "a peer that does not speak the protocol; test/wire",
  "workspace-busy": "reserved",
};

const FAULTS: Fault[] = [...REACHING_FAULTS, ...OPERATION_FAULTS];

function expectTold({ code, stderr }: Told, fault: Fault, named: string | undefined): void {
  expect(stderr).toMatch(fault.sentence);
  expect(stderr).toMatch(new RegExp(`^[^\\n]+ \\[${fault.code}\\]\\n$`));
  if (named !== undefined) expect(stderr).toContain(named);
  expect(code).not.toBe(0);
}

describePrivileged("the catalogue of faults", () => {
  let world: FaultWorld;
  beforeAll(async () => {
    world = await FaultWorld.make();
    await world.prepareWorkspaces();
  });
  afterAll(() => world?.end());

  async function inTime<Result>(action: () => Promise<Result>): Promise<Result> {
    const begunAt = performance.now();
    const result = await action();
    expect(performance.now() - begunAt).toBeLessThan(LIMIT_MS);
    return result;
  }

  it.concurrent.each(REACHING_FAULTS)("has $what: $code, from an operation and from the doctor", async (fault) => {
    const options = await fault.options(world);
    const client = world.client.with({ options });
    const told = await inTime(() => client.operation(["inspect", "--workspace-id", "w"]));
    expectTold(told, fault, fault.names?.(options));

    const { ok, steps } = await inTime(() => doctorReport(client));
    const failed = steps.find(({ status }) => status === "failed");
    expect(failed).toMatchObject({ step: fault.step, error: { code: fault.code } });
    const { cause, remedy } = failed!.error!;
    expect(cause).toMatch(fault.sentence);
    if (fault.names !== undefined) expect(`${cause}. ${remedy}`).toContain(fault.names(options));
    expect(ok).toBe(false);
    expect(steps.slice(steps.indexOf(failed!) + 1).every(({ status }) => status === "skipped")).toBe(true);
  });

  it.concurrent.each(OPERATION_FAULTS)("has $what: $code", async (fault) => {
    expectTold(await inTime(() => fault.provoke(world)), fault, fault.names);
  });
});

describe("docs/troubleshooting.md", () => {
  const text = readFileSync(resolve(import.meta.dirname, "../../docs/troubleshooting.md"), "utf8");
  const entries = new Map(
    [...text.matchAll(/^## `([a-z-]+)`\n(.*?)(?=^## |$(?![\s\S]))/gms)].map(([, code, entry]) => [code!, entry!]),
  );
  const codes = [...new Set(FAULTS.map(({ code }) => code))].sort();

  it.each(codes)("shows what a person sees for %s", (code) => {
    const example = /^> .*(?:\n> .*)*/m
      .exec(entries.get(code) ?? "")?.[0]
      .replace(/^> /gm, "")
      .replaceAll("\n", " ");
    expect(example).toBeDefined();
    const sentences = FAULTS.filter((fault) => fault.code === code).map(({ sentence }) => sentence);
    expect(
      sentences.filter((sentence) => sentence.test(example!)),
      example,
    ).not.toEqual([]);
  });

  it("has a fault here for each code, or a reason why not", () => {
    expect([...codes, ...Object.keys(ELSEWHERE)].sort()).toEqual([...ERROR_CODES].sort());
    expect(FAULTS.length).toBeGreaterThanOrEqual(40);
  });
});

import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { hopsOf, type SshTarget } from "../../src/ssh/target.ts";
import { LOGIN_CASES } from "../support/login-cases.ts";
import { LoginLaboratory } from "../support/login-laboratory.ts";
import { describeWithPrograms } from "../support/requirements.ts";

/** Settings that have to be the same with and without the ssh program. */
const COMPARED = [
  ...["host", "port", "user", "addressFamily", "bindAddress", "identityFiles", "identitiesOnly", "identityAgent"],
  ...["userKnownHostsFiles", "globalKnownHostsFiles", "hostKeyAlias", "hostKeyPolicy", "hashKnownHosts"],
  ...[
    "hostKeyAlgorithms",
    "proxyCommand",
    "proxyUseFdpass",
    "connectTimeoutMs",
    "keepaliveIntervalMs",
    "keepaliveCountMax",
  ],
] as (keyof SshTarget)[];

const compared = (target: SshTarget) =>
  [...hopsOf(target), target].map((link) => Object.fromEntries(COMPARED.map((key) => [key, link[key]])));

/**
 * The same ssh_config for `ssh` and for us, against the same servers. What counts is what the servers see: which of them
 * are reached in which order, as whom, and with which keys, and whether somebody gets in.
 */
describeWithPrograms(
  "ssh",
  "ssh-keygen",
  "ssh-agent",
)("ssh and the runtime decide alike about", () => {
  let laboratory: LoginLaboratory;
  beforeAll(async () => {
    laboratory = await LoginLaboratory.start();
  });
  afterAll(() => laboratory?.stop());

  it.concurrent.each(LOGIN_CASES.map((one) => [one.name, one] as const))("%s", async (_, one) => {
    const { ssh, ours, target, without } = await laboratory.compare(one);
    expect(ssh.outcome).toBe(one.outcome);
    if (one.differs === undefined) expect(ours).toEqual(ssh);
    else {
      expect(ours).toEqual({ outcome: one.differs.outcome, visits: one.differs.visits ?? ssh.visits });
      expect(ours).not.toEqual(ssh);
    }
    if (target === undefined) return;
    if (one.needsProgram) expect(without).toMatch(/without the ssh program/);
    else expect(compared(without as SshTarget)).toEqual(compared(target));
  });
});

describe("the differences that are wanted", () => {
  it("are those of docs/options.md", () => {
    const page = readFileSync(resolve(import.meta.dirname, "../../docs/options.md"), "utf8");
    const reasons = LOGIN_CASES.flatMap(({ differs }) => (differs === undefined ? [] : [differs.reason]));
    expect(reasons.length).toBeGreaterThan(0);
    for (const reason of reasons) expect(page).toContain(`| ${reason}`);
  });
});

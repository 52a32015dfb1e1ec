import { readdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { afterAll, beforeAll, expect, it } from "vitest";
import { STEPS } from "../../src/cli/doctor/examination.ts";
import { BuildHost, brokerPids } from "../support/build-host.ts";
import { doctorArguments, doctorReport } from "../support/doctor.ts";
import { LocalTerminal } from "../support/local-terminal.ts";
import { describeReal } from "../support/requirements.ts";
import { LAUNCHER, type RuntimeClient } from "../support/runtime.ts";
import { freePort, generateKey } from "../support/sshd.ts";

describeReal("paseo-ssh-runtime doctor", () => {
  let host: BuildHost;
  let client: RuntimeClient;
  beforeAll(async () => {
    host = await BuildHost.start();
    client = host.client();
  });
  afterAll(() => host?.stop());

  const temporaryFolders = () => readdirSync(tmpdir()).filter((name) => name.startsWith("paseo-doctor-"));
  /** Without sockets of agents, which come and go by themselves. */
  const files = () => host.listing().filter((path) => !path.startsWith("run"));

  it("takes every step, says what it found, and leaves nothing behind", async () => {
    const first = await doctorReport(client);
    expect(first.steps.filter(({ status }) => status !== "ok")).toEqual([]);
    expect(first).toMatchObject({ ok: true, milliseconds: expect.any(Number) });
    expect(first.steps.map(({ step }) => step)).toEqual(STEPS);
    expect(first.steps.every(({ milliseconds }) => typeof milliseconds === "number")).toBe(true);
    const found = Object.fromEntries(first.steps.map((result) => [result.step, result.found]));
    const [keyType, key] = [expect.stringMatching(/^ssh-ed25519 SHA256:/), expect.stringContaining("id_ed25519")];
    expect(found).toMatchObject({
      configuration: { user: host.sshd.user, host: "127.0.0.1", port: host.sshd.port },
      name: { addresses: ["127.0.0.1"] },
      transport: { address: "127.0.0.1" },
      "host-key": { key: keyType },
      login: { with: key },
      host: { platform: `${process.platform}-${process.arch}`, node: expect.stringContaining(process.version) },
      agent: { files: "put there now" },
      terminal: { echo: expect.stringMatching(/^\d+\.\d ms/) },
      "clean-up": { workspace: "destroyed", broker: "ended" },
    });
    expect(found.host?.root).toContain(host.root);
    expect([host.workspaceFolders(), host.trash(), temporaryFolders()]).toEqual([[], [], []]);
    await expect.poll(() => brokerPids(client), { timeout: 20_000 }).toEqual([]);

    const after = files();
    const second = await doctorReport(client);
    expect(second.steps.find(({ step }) => step === "agent")).toMatchObject({ found: { files: "found" } });
    expect(files()).toEqual(after);
  });

  it.each(["ssh2", "openssh"])("takes every step over a jump host, with %s", async (carrier) => {
    const sshConfigFile = host.path(`hops-${carrier}`);
    const { sshd } = host;
    const lines = [
      ...["Host inner", "  ProxyJump hop", "Host *"],
      ...[`  HostName ${sshd.host}`, `  Port ${sshd.port}`, `  IdentityFile ${sshd.identityFile}`],
      ...[`  UserKnownHostsFile ${sshd.knownHostsFile}`, "  GlobalKnownHostsFile none"],
    ];
    writeFileSync(sshConfigFile, `${lines.join("\n")}\n`);
    const { root } = host;
    const far = host.client({ carrier }).with({ options: { host: "inner", sshConfigFile, root } });
    // Whoever is the hop here is the host as well, so both have one name.
    const report = await doctorReport(far);
    const reaching = ["transport", "host-key", "login"];
    const hops = carrier === "ssh2" ? reaching : [];
    const expected = STEPS.flatMap((step) => (step === "transport" ? [...hops, step] : [step]));
    expect(report.steps.map(({ step, status }) => [step, status])).toEqual(expected.map((step) => [step, "ok"]));
    expect(report.steps[0]).toMatchObject({ found: { hops: ["hop"] } });
    await far.run(["broker", "stop"]);
  });

  it("leaves what runs alone", async () => {
    await client.create("w", { kind: "directory", path: host.emptyFolder() });
    const exec = client.exec("w", { argv: ["cat"] });
    await exec.started();
    const brokers = brokerPids(client);
    const report = await doctorReport(client);
    expect(report.steps.at(-1)).toMatchObject({ status: "ok", found: { broker: "left as it was" } });
    expect(brokerPids(client)).toEqual(brokers);
    exec.stdin.end("still there\n");
    const { code, stdout } = await exec.result();
    expect([code, stdout.toString("utf8")]).toEqual([0, "still there\n"]);
    await client.destroy("w");
    await client.run(["broker", "stop"]);
  });

  it("prints a line for each step, and stops at the first failure that makes the next pointless", async () => {
    const port = await freePort();
    const { code, stdout, stderr } = await client.run(doctorArguments(client, { port }));
    expect([code, stderr]).toEqual([1, ""]);
    const lines = stdout.split("\n");
    expect(lines.slice(0, 4)).toEqual([
      expect.stringMatching(/^ok {6}configuration +\d/),
      expect.stringMatching(/^ok {6}name +\d.* ms {2}addresses: 127\.0\.0\.1$/),
      expect.stringMatching(
        /^FAILED {2}transport .*127\.0\.0\.1 refuses connections on port \d+ \[connection-refused\]$/,
      ),
      expect.stringMatching(/^ +→ Check the port, and that an SSH server runs there$/),
    ]);
    expect(lines.slice(4)).toEqual([...STEPS.slice(3).map((step) => `skipped ${step}`), ""]);
  });

  it("goes on without a helper, which only a workspace of Paseo's needs", async () => {
    const report = await doctorReport(client, { helper: "/nowhere/helper" });
    expect(report.ok).toBe(false);
    const failed = report.steps.filter(({ status }) => status !== "ok");
    expect(failed).toMatchObject([{ step: "helper", status: "failed", error: { code: "helper-not-found" } }]);
    expect(failed[0]!.error!.remedy).toMatch(/helper/);
  });

  it("says which keys were offered in vain", async () => {
    const stranger = generateKey(host.path("stranger"), "ed25519");
    writeFileSync(host.path("ssh_config"), `IdentityFile ${host.sshd.identityFile}\n`);
    const report = await doctorReport(client, { identityFile: stranger, sshConfigFile: host.path("ssh_config") });
    const login = report.steps.find(({ step }) => step === "login")!;
    expect(login.found!.with).toMatch(/id_ed25519 \(ssh-ed25519 SHA256:\S+\), after: \S*stranger \(ssh-ed25519/);
  });

  it("shows on a terminal what it is doing", async () => {
    const terminal = new LocalTerminal([process.execPath, LAUNCHER, ...doctorArguments(client)], client.env);
    expect(await terminal.ended()).toBe(0);
    for (const step of STEPS) {
      expect(terminal.screen).toMatch(new RegExp(`…       ${step}\r\x1b\\[Kok      ${step} `));
    }
  });

  it("cleans up when it is interrupted", async () => {
    const terminal = new LocalTerminal([process.execPath, LAUNCHER, ...doctorArguments(client)], client.env);
    await terminal.sees("…       exec");
    terminal.type("\x03");
    expect(await terminal.ended()).toBe(130);
    expect([host.workspaceFolders(), temporaryFolders()]).toEqual([[], []]);
    await expect.poll(() => brokerPids(client), { timeout: 20_000 }).toEqual([]);
  });

  it("takes HOST", async () => {
    const args = ["doctor", `root@127.0.0.1:${host.sshd.port}`, "--option", "sshConfigFile=/nowhere/config", "--json"];
    const { code, stdout } = await client.run(args);
    expect([code, JSON.parse(stdout)]).toMatchObject([
      1,
      {
        host: args[1],
        ok: false,
        steps: [
          { step: "configuration", status: "failed", error: { code: "option-invalid" } },
          ...STEPS.slice(1).map((step) => ({ step, status: "skipped" })),
        ],
      },
    ]);
  });
});

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { connect, publicKey, resolve, temporaryFolder } from "../ssh/support.ts";
import { describeReal } from "../support/requirements.ts";
import { type Sshd, startSshd } from "../support/sshd.ts";

describeReal("host keys over a real connection", () => {
  let sshd: Sshd;
  beforeAll(async () => {
    sshd = await startSshd({ hostKeyTypes: ["ed25519", "ecdsa", "rsa"] });
  });
  afterAll(() => sshd?.stop());

  function knownHosts(...lines: string[]): string {
    const file = join(temporaryFolder(), "known_hosts");
    writeFileSync(file, lines.map((line) => `${line}\n`).join(""));
    return file;
  }
  const name = () => `[127.0.0.1]:${sshd.port}`;
  const attempt = async (knownHostsFile: string, extra = {}) =>
    connect(await resolve(sshd.options({ knownHostsFile, ...extra })));
  /** What the server has logged meanwhile about connections that it has seen the end of. */
  const logSince = async (mark: number): Promise<string> => {
    await expect
      .poll(() => sshd.log().slice(mark))
      .toMatch(/(Connection closed|Received disconnect|Connection reset|Disconnected)/);
    return sshd.log().slice(mark);
  };

  it("connects to a known host", async () => {
    const mark = sshd.log().length;
    await attempt(sshd.knownHostsFile);
    expect(sshd.log().slice(mark)).toMatch(/Accepted publickey/);
  });

  it("refuses an unknown host and says how to make it known", async () => {
    const file = knownHosts();
    const error = await attempt(file).catch((caught: unknown) => caught);
    expect(error).toMatchObject({
      code: "host-key-unknown",
      message: expect.stringMatching(/ssh-ed25519 SHA256:[A-Za-z0-9+/]{43}$/),
      remedy: expect.stringContaining(`trust ${sshd.user}@127.0.0.1:${sshd.port} --option knownHostsFile=${file} `),
    });
    expect((error as Error).message).toContain(name());
    expect(readFileSync(file, "utf8")).toBe("");
  });

  it("offers no key to a server whose host key is wrong", async () => {
    const mark = sshd.log().length;
    const file = knownHosts(`${name()} ${publicKey().line}`);
    await expect(attempt(file)).rejects.toMatchObject({
      code: "host-key-changed",
      message: expect.stringContaining(`${file}:1`),
      remedy: expect.stringContaining(`ssh-keygen -f "${file}" -R "${name()}"`),
    });
    const log = await logSince(mark);
    expect(log).toContain("Connection from");
    expect(log).not.toMatch(/publickey|password|Postponed|Failed|Accepted|authenticating user/i);
  });

  it("accepts a new host, and from then on only that key", async () => {
    const file = join(temporaryFolder(), "new", "known_hosts");
    await attempt(file, { hostKeyPolicy: "accept-new" });
    expect(readFileSync(file, "utf8")).toBe(`${name()} ${sshd.hostPublicKeys[0]!.split(" ").slice(0, 2).join(" ")}\n`);
    await attempt(file);

    writeFileSync(file, `${name()} ${publicKey().line}\n`);
    await expect(attempt(file, { hostKeyPolicy: "accept-new" })).rejects.toMatchObject({ code: "host-key-changed" });
  });

  it("does not accept a new host when its key cannot be filed, and sends nothing to it", async () => {
    const mark = sshd.log().length;
    const file = join(sshd.identityFile, "below-a-file");
    await expect(attempt(file, { hostKeyPolicy: "accept-new" })).rejects.toMatchObject({
      code: "host-key-unknown",
      message: expect.stringContaining(file),
    });
    expect(await logSince(mark)).not.toMatch(/publickey|Accepted/);
  });

  it("refuses a revoked key, whatever else is said about it", async () => {
    const key = sshd.hostPublicKeys[0]!;
    const file = knownHosts(`${name()} ${key}`, `@revoked * ${key}`);
    for (const hostKeyPolicy of ["strict", "accept-new"]) {
      await expect(attempt(file, { hostKeyPolicy })).rejects.toMatchObject({
        code: "host-key-revoked",
        message: expect.stringContaining(`${file}:2`),
      });
    }
  });

  it.each([0, 1, 2])("asks for the type of key that it knows (%i)", async (index) => {
    const carrier = await attempt(knownHosts(`${name()} ${sshd.hostPublicKeys[index]}`));
    expect(carrier).toBeDefined();
  });

  it("looks an alias up without the port", async () => {
    const file = knownHosts(`farm ${sshd.hostPublicKeys[0]}`);
    const target = await resolve(sshd.options({ knownHostsFile: file }), { hostKeyAlias: "farm" });
    expect(await connect(target)).toBeDefined();
    await expect(connect({ ...target, hostKeyAlias: "other" })).rejects.toMatchObject({ code: "host-key-unknown" });
  });
});

import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { chmodSync, copyFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { connect, resolve, temporaryFolder } from "../ssh/support.ts";
import { describeReal } from "../support/requirements.ts";
import { type SshAgent, startSshAgent } from "../support/ssh-agent.ts";
import { generateKey, type Sshd, startSshd } from "../support/sshd.ts";

/** More than MaxAuthTries (6) of a stock server. */
const AGENT_KEYS = 8;

describeReal("logging in", () => {
  let sshd: Sshd;
  /** Keys that the server does not know. */
  let strangers: string[];
  /** An agent with strangers only. */
  let crowdedAgent: SshAgent;

  beforeAll(async () => {
    sshd = await startSshd({ clientKeyTypes: ["ed25519", "ecdsa", "rsa"] });
    strangers = Array.from({ length: AGENT_KEYS }, (_, index) =>
      generateKey(join(sshd.folder, `stranger${index}`), "ed25519"),
    );
    crowdedAgent = await startSshAgent();
    for (const file of strangers) crowdedAgent.add(file);
  });
  afterAll(async () => {
    await crowdedAgent?.stop();
    await sshd?.stop();
  });

  async function agentWith(...files: string[]): Promise<SshAgent> {
    const agent = await startSshAgent();
    onTestFinished(() => agent.stop());
    for (const file of files) agent.add(file);
    return agent;
  }
  const target = async (changes = {}) =>
    resolve(sshd.options(), { identityFiles: [], identitiesOnly: false, ...changes });
  /** Only the public half, as on a machine whose agent holds the private one. */
  function publicHalf(identityFile: string): string {
    const path = join(temporaryFolder(), "key");
    copyFileSync(`${identityFile}.pub`, `${path}.pub`);
    return path;
  }
  /** How many keys the server has refused since `mark`. */
  const refusedSince = (mark: number) =>
    sshd
      .log()
      .slice(mark)
      .match(/Failed publickey/g)?.length ?? 0;

  it.each(["ed25519", "ecdsa", "rsa"])("uses a key file of type %s", async (type) => {
    const identityFile = sshd.identityFiles.find((file) => file.endsWith(type))!;
    expect(await connect(await target({ identityFiles: [identityFile] }))).toBeDefined();
  });

  it.each(["ed25519", "ecdsa", "rsa"])("uses an agent key of type %s", async (type) => {
    const mark = sshd.log().length;
    const agent = await agentWith(sshd.identityFiles.find((file) => file.endsWith(type))!);
    expect(await connect(await target(), { authSock: agent.socket })).toBeDefined();
    expect(sshd.log().slice(mark)).toMatch(
      new RegExp(`Accepted publickey for \\S+ from .* ${type.toUpperCase()} SHA256`),
    );
  });

  it("offers a configured file before the agent's other keys, which are more than the server hears out", async () => {
    const mark = sshd.log().length;
    await connect(await target({ identityFiles: [sshd.identityFile] }), { authSock: crowdedAgent.socket });
    expect(refusedSince(mark)).toBe(0);
  });

  it("picks the agent key that a configured file names, by its public half alone", async () => {
    const mark = sshd.log().length;
    const agent = await agentWith(...strangers, sshd.identityFile);
    for (const identitiesOnly of [true, false]) {
      await connect(await target({ identityFiles: [publicHalf(sshd.identityFile)], identitiesOnly }), {
        authSock: agent.socket,
      });
    }
    expect(refusedSince(mark)).toBe(0);
  });

  it("picks the agent key that belongs to an encrypted file", async () => {
    const mark = sshd.log().length;
    const encrypted = join(temporaryFolder(), "id");
    copyFileSync(sshd.identityFile, encrypted);
    chmodSync(encrypted, 0o600);
    execFileSync("ssh-keygen", ["-q", "-p", "-P", "", "-N", "secret phrase", "-f", encrypted]);
    rmSync(`${encrypted}.pub`, { force: true });
    const agent = await agentWith(...strangers, sshd.identityFile);
    await connect(await target({ identityFiles: [encrypted], identitiesOnly: true }), { authSock: agent.socket });
    expect(refusedSince(mark)).toBe(0);
  });

  it("tries the agent's keys before the default files, and the default file's own key first", async () => {
    const mark = sshd.log().length;
    const agent = await agentWith(...strangers, sshd.identityFile);
    await connect(await target({ defaultIdentityFiles: [publicHalf(sshd.identityFile)] }), { authSock: agent.socket });
    expect(refusedSince(mark)).toBe(0);

    await connect(await target({ defaultIdentityFiles: [sshd.identityFile] }), {
      authSock: (await agentWith(strangers[0]!)).socket,
    });
    expect(refusedSince(mark)).toBe(1);
  });

  it("keeps to the configured files when told so", async () => {
    const agent = await agentWith(sshd.identityFile);
    const error = await connect(await target({ identityFiles: [strangers[0]], identitiesOnly: true }), {
      authSock: agent.socket,
    }).catch((caught: unknown) => caught);
    expect(error).toMatchObject({ code: "authentication-failed", message: expect.stringContaining(strangers[0]!) });
    expect((error as Error).message).not.toContain("agent key");
  });

  it("says what it has offered when the server hangs up", async () => {
    const error = await connect(await target(), { authSock: crowdedAgent.socket }).catch((caught: unknown) => caught);
    expect(error).toMatchObject({
      code: "authentication-failed",
      message: expect.stringMatching(
        /^\S+@127\.0\.0\.1:\d+ accepted no key; offered: agent key "ed25519 test key" \(ssh-ed25519 SHA256:/,
      ),
      remedy: expect.stringContaining("identityFile"),
    });
    expect((error as Error).message).toContain("Too many authentication failures");
    expect((error as Error).message.match(/agent key/g)).toHaveLength(6);
  });

  it("passes over files that it cannot use, and says so when nothing else is left", async () => {
    const folder = temporaryFolder();
    const encrypted = generateKey(join(folder, "id_encrypted"), "ed25519", "a secret phrase");
    writeFileSync(
      join(folder, "id_damaged"),
      "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n",
      { mode: 0o600 },
    );
    copyFileSync(sshd.identityFile, join(folder, "id_exposed"));
    chmodSync(join(folder, "id_exposed"), 0o644);
    const unusable = [
      encrypted,
      join(folder, "id_damaged"),
      join(folder, "id_exposed"),
      folder,
      join(folder, "id_missing"),
      "relative",
    ];

    expect(await connect(await target({ defaultIdentityFiles: [...unusable, sshd.identityFile] }))).toBeDefined();

    const error = await connect(await target({ identityFiles: unusable })).catch((caught: unknown) => caught);
    expect(error).toMatchObject({
      code: "authentication-failed",
      message: expect.stringMatching(/there was no key to offer; the server accepts publickey/),
      remedy: expect.stringContaining(`${encrypted} is protected by a passphrase`),
    });
    const { remedy } = error as { remedy: string };
    for (const reason of [
      "format that is not supported",
      "read by others",
      "is not a key file",
      "does not exist",
      "not an absolute path",
    ]) {
      expect(remedy).toContain(reason);
    }
    expect(remedy).not.toContain("a secret phrase");
  });

  it("goes on to the file when the agent is gone, or does not answer", async () => {
    const withFile = await target({ identityFiles: [sshd.identityFile] });
    expect(await connect(withFile, { authSock: "/nonexistent/agent" })).toBeDefined();

    const silent = createServer((socket) => socket.on("error", () => {}).resume()).listen(
      join(temporaryFolder(), "silent"),
    );
    const asked = once(silent, "connection") as Promise<[Socket]>;
    expect(await connect(withFile, { authSock: silent.address() as string })).toBeDefined();
    const [connection] = await asked;
    if (!connection.closed) await once(connection, "close");
    silent.close();
  });

  it("goes on to the next key when the agent will not sign", async () => {
    const mark = sshd.log().length;
    const [file, declined] = sshd.identityFiles as [string, string];
    const agent = await agentWith();
    agent.addUnwilling(declined);
    const log: string[] = [];
    await connect(await target({ identityFiles: [publicHalf(declined), file] }), {
      authSock: agent.socket,
      log: (line) => log.push(line),
    });
    expect(log[0]).toMatch(/^a key could not be used/);
    expect(sshd.log().slice(mark)).toMatch(/Accepted publickey for .* ED25519/);
  });

  it("leaves the agent alone where ssh_config says none, and asks the one that it names", async () => {
    const agent = await agentWith(sshd.identityFile);
    await expect(
      connect(await target({ identityAgent: { kind: "none" } }), { authSock: agent.socket }),
    ).rejects.toMatchObject({
      code: "authentication-failed",
    });
    expect(
      await connect(await target({ identityAgent: { kind: "socket", path: agent.socket } }), {
        authSock: "/nonexistent",
      }),
    ).toBeDefined();
  });

  it("says so when the server wants more than a key", async () => {
    const strict = await startSshd({ config: ["AuthenticationMethods publickey,password"] });
    onTestFinished(() => strict.stop());
    await expect(connect(await resolve(strict.options()))).rejects.toMatchObject({
      code: "authentication-failed",
      message: expect.stringContaining("wants a second method as well; the server accepts password"),
    });
  });

  it("says which methods a server without public keys accepts", async () => {
    const passwords = await startSshd({ config: ["PubkeyAuthentication no"] });
    onTestFinished(() => passwords.stop());
    await expect(connect(await resolve(passwords.options()))).rejects.toMatchObject({
      code: "authentication-failed",
      message: expect.stringContaining("the server accepts password"),
    });
  });
});

import { execFileSync } from "node:child_process";
import { chmodSync, copyFileSync, writeFileSync } from "node:fs";
import { join, resolve as resolvePath } from "node:path";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { Keychain } from "../../src/ssh/keychain.ts";
import { passphraseAccount, passwordAccount } from "../../src/ssh/keychain-protocol.ts";
import { connect, publicKey, resolve, temporaryFolder } from "../ssh/support.ts";
import { ACCOUNT_HOST, type Account, addAccount } from "../support/accounts.ts";
import { BuildHost } from "../support/build-host.ts";
import { type Keyring, startKeyring } from "../support/keyring.ts";
import { describePrivileged } from "../support/requirements.ts";
import { filesWith, watchProcesses } from "../support/secret-scan.ts";
import { type SshAgent, startSshAgent } from "../support/ssh-agent.ts";
import { generateKey } from "../support/sshd.ts";

const PROGRAM = resolvePath(import.meta.dirname, "../../dist/keychain.cjs");
const PASSWORD = "Tr0ub4dor & 3";
/** More than MaxAuthTries (6) of a stock server. */
const AGENT_KEYS = 8;

describePrivileged("passwords", () => {
  let keyring: Keyring;
  let keychain: Keychain;
  let host: BuildHost;
  let account: Account;

  beforeAll(async () => {
    keyring = await startKeyring();
    keychain = new Keychain(keyring.env, { program: PROGRAM });
    host = await BuildHost.start({ config: [...ACCOUNT_HOST.config, "LogLevel DEBUG1"] });
    account = accountOn(host);
  });
  afterAll(async () => {
    await account?.remove();
    await host?.stop();
    await keyring?.stop();
  });

  /** With a password, and without a key. */
  function accountOn(server: BuildHost): Account {
    const added = addAccount(server, { shell: "/bin/sh" });
    const hash = execFileSync("openssl", ["passwd", "-6", "-stdin"], { input: PASSWORD, encoding: "utf8" }).trim();
    execFileSync("usermod", ["--password", hash, added.name]);
    added.write(".ssh/authorized_keys", "");
    return added;
  }
  async function store(secret: string, server = host, { name } = account): Promise<void> {
    const { host: address, port } = server.sshd;
    await keychain.ask({ type: "store", account: passwordAccount({ user: name, host: address, port }), secret });
  }
  const target = (changes = {}, server = host, { name } = account) =>
    resolve(server.sshd.options({ user: name }), { identityFiles: [], identitiesOnly: false, ...changes });
  const failureOf = async (attempt: Promise<unknown>) =>
    (await attempt.then(
      () => undefined,
      (error: unknown) => error,
    )) as { code: string; message: string; remedy: string };
  /** What became of passwords since `mark`. The server's log is a little late. */
  const passwordsSince = (mark: number, server = host) =>
    [
      ...server.sshd
        .log()
        .slice(mark)
        .matchAll(/(Accepted|Failed) password/g),
    ].map(([, verdict]) => verdict);

  /** Methods that were asked for since `mark`, in order. */
  const requestsSince = (mark: number, server = host) =>
    [
      ...server.sshd
        .log()
        .slice(mark)
        .matchAll(/userauth-request for user \S+ service \S+ method (\S+)/g),
    ].map(([, method]) => method);
  async function agentWith(...files: string[]): Promise<SshAgent> {
    const agent = await startSshAgent();
    onTestFinished(() => agent.stop());
    for (const file of files) agent.add(file);
    return agent;
  }
  const strangers = (count: number) =>
    Array.from({ length: count }, () => generateKey(host.path(host.newName("stranger")), "ed25519"));

  it("come from the keychain, after the keys", async () => {
    await store(PASSWORD);
    const mark = host.sshd.log().length;
    const [key] = strangers(1);
    await connect(await target({ identityFiles: [key] }), { keychain });
    await expect.poll(() => requestsSince(mark)).toEqual(["none", "publickey", "keyboard-interactive", "password"]);
    await expect.poll(() => passwordsSince(mark)).toEqual(["Accepted"]);
  });

  it("log in through the wrapper, and are in nobody's command line, environment or file", async () => {
    await store(PASSWORD);
    const client = host.client(
      { user: account.name, root: undefined, identityFile: host.sshd.identityFile },
      { env: { ...keyring.env, HOME: process.env.HOME } },
    );
    const inspection = client.operation(["inspect", "--workspace-id", "none"]);
    const watch = await watchProcesses(PASSWORD, "keychain.cjs", inspection);
    expect(watch.result).toMatchObject({ code: 0, stdout: expect.stringContaining("missing"), stderr: "" });
    expect(watch).toMatchObject({ exposed: [], witnessed: true });
    for (const folder of [client.brokerFolder, account.home, host.sshd.folder]) {
      expect(filesWith(PASSWORD, folder)).toEqual([]);
    }
    await client.close();
  });

  it("keep the last tries of a server that hears six", async () => {
    await store(PASSWORD);
    const agent = await agentWith(...strangers(AGENT_KEYS));
    const mark = host.sshd.log().length;
    await connect(await target(), { keychain, authSock: agent.socket });
    await expect.poll(() => passwordsSince(mark)).toEqual(["Accepted"]);
    await expect.poll(() => requestsSince(mark).filter((method) => method === "publickey")).toHaveLength(4);
  });

  it("are sent once and not again after a refusal, until another one is stored", async () => {
    await store("an old password");
    const mark = host.sshd.log().length;
    const first = await failureOf(connect(await target(), { keychain }));
    expect(first).toMatchObject({
      code: "authentication-failed",
      message: expect.stringContaining("refused the login; offered: the stored password"),
      remedy: expect.stringContaining(`auth set ${account.name}@127.0.0.1:${host.sshd.port} --password`),
    });
    const second = await failureOf(connect(await target(), { keychain }));
    expect(second).toMatchObject({ code: "authentication-failed", remedy: expect.stringContaining("refused before") });
    await expect.poll(() => passwordsSince(mark)).toEqual(["Failed"]);
    expect(JSON.stringify([first, second])).not.toContain("an old password");

    await store(PASSWORD);
    await connect(await target(), { keychain });
    await expect.poll(() => passwordsSince(mark)).toEqual(["Failed", "Accepted"]);
  });

  it("are not sent to a host whose key is not the known one", async () => {
    await store(PASSWORD);
    const mark = host.sshd.log().length;
    const path = join(temporaryFolder(), "known_hosts");
    writeFileSync(path, `[127.0.0.1]:${host.sshd.port} ${publicKey().line}\n`);
    const refused = await failureOf(connect(await target({ userKnownHostsFiles: [path] }), { keychain }));
    expect(refused.code).toBe("host-key-changed");
    // The next login's lines come after those of the refused one.
    await connect(await target(), { keychain });
    await expect.poll(() => requestsSince(mark)).toEqual(["none", "keyboard-interactive", "password"]);
  });

  it("are tried in the order of PreferredAuthentications, and not at all where ssh_config says so", async () => {
    await store(PASSWORD);
    const mark = host.sshd.log().length;
    const [key] = strangers(1);
    const identityFiles = [key];
    await connect(await target({ identityFiles, preferredAuthentications: ["password", "publickey"] }), { keychain });
    await expect.poll(() => requestsSince(mark)).toEqual(["none", "password"]);
    const keysOnly = await target({ identityFiles, preferredAuthentications: ["publickey"] });
    expect(await failureOf(connect(keysOnly, { keychain }))).toMatchObject({ code: "authentication-failed" });
    await expect.poll(() => passwordsSince(mark)).toEqual(["Accepted"]);
  });

  it("are named with the command that stores one, where none is stored", async () => {
    await keychain.ask({
      type: "remove",
      account: passwordAccount({ user: account.name, host: "127.0.0.1", port: host.sshd.port }),
    });
    const failure = await failureOf(connect(await target(), { keychain }));
    expect(failure.remedy).toContain(
      `none is stored, or the keychain is locked (paseo-ssh-runtime auth set ${account.name}@127.0.0.1:${host.sshd.port} --password)`,
    );
  });

  it("are the second of two factors, after a key of a file, of the agent, or with a passphrase", async () => {
    const strict = await BuildHost.start({
      config: [...ACCOUNT_HOST.config, "AuthenticationMethods publickey,password", "LogLevel DEBUG1"],
    });
    onTestFinished(() => strict.stop());
    const owner = accountOn(strict);
    onTestFinished(() => owner.remove());
    await store(PASSWORD, strict, owner);
    owner.write(".ssh/authorized_keys", strict.publicKey);
    const encrypted = strict.path("encrypted");
    copyFileSync(strict.sshd.identityFile, encrypted);
    chmodSync(encrypted, 0o600);
    execFileSync("ssh-keygen", ["-q", "-p", "-P", "", "-N", "a phrase", "-f", encrypted]);
    await keychain.ask({ type: "store", account: passphraseAccount(encrypted), secret: "a phrase" });
    const agent = await agentWith(strict.sshd.identityFile);

    const mark = strict.sshd.log().length;
    await connect(await target({ identityFiles: [strict.sshd.identityFile] }, strict, owner), { keychain });
    await connect(await target({}, strict, owner), { keychain, authSock: agent.socket });
    await connect(await target({ identityFiles: [encrypted] }, strict, owner), { keychain });
    await expect.poll(() => passwordsSince(mark, strict)).toEqual(["Accepted", "Accepted", "Accepted"]);

    await store("another one", strict, owner);
    const failure = await failureOf(connect(await target({}, strict, owner), { keychain, authSock: agent.socket }));
    expect(failure).toMatchObject({
      code: "authentication-failed",
      message: expect.stringContaining("accepted a key but wants a second method as well; the server accepts password"),
      remedy: expect.stringContaining("the stored password, which the server refused"),
    });
  });

  it("answer the question that PAM asks for them", async () => {
    const pam = await BuildHost.start({
      config: [...ACCOUNT_HOST.config, "UsePAM yes", "PasswordAuthentication no", "LogLevel DEBUG1"],
    });
    onTestFinished(() => pam.stop());
    const owner = accountOn(pam);
    onTestFinished(() => owner.remove());
    await store(PASSWORD, pam, owner);
    await connect(await target({}, pam, owner), { keychain });

    await store("another one", pam, owner);
    const failure = await failureOf(connect(await target({}, pam, owner), { keychain }));
    expect(failure.remedy).toContain("the stored password, which the server refused");
    await expect
      .poll(() => pam.sshd.log().match(/(?:Accepted|Failed) keyboard-interactive\/pam/g))
      .toEqual(["Accepted keyboard-interactive/pam", "Failed keyboard-interactive/pam"]);
  });
});

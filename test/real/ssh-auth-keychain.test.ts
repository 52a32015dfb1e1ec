import { execFileSync } from "node:child_process";
import { appendFileSync, readFileSync } from "node:fs";
import { join, resolve as resolvePath } from "node:path";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { Keychain } from "../../src/ssh/keychain.ts";
import { passphraseAccount } from "../../src/ssh/keychain-protocol.ts";
import { connect, resolve } from "../ssh/support.ts";
import { BuildHost, failureCode } from "../support/build-host.ts";
import { type Keyring, startKeyring } from "../support/keyring.ts";
import { describeWithPrograms } from "../support/requirements.ts";
import type { OperationResult, RuntimeClient } from "../support/runtime.ts";
import { filesWith, watchProcesses } from "../support/secret-scan.ts";
import { startSshAgent } from "../support/ssh-agent.ts";
import { generateKey } from "../support/sshd.ts";

const PROGRAM = resolvePath(import.meta.dirname, "../../dist/keychain.cjs");
const PASSPHRASE = "correct horse battery";
const NO_BUS = { DBUS_SESSION_BUS_ADDRESS: undefined, XDG_RUNTIME_DIR: undefined, DISPLAY: undefined };

describeWithPrograms(
  "dbus-daemon",
  "dbus-send",
  "gnome-keyring-daemon",
)("keys with a passphrase", () => {
  let host: BuildHost;
  let keyring: Keyring;
  let session: { DBUS_SESSION_BUS_ADDRESS: string; XDG_RUNTIME_DIR: string };

  let keychain: Keychain;

  beforeAll(async () => {
    host = await BuildHost.start();
    keyring = await startKeyring();
    keychain = new Keychain(keyring.env, { program: PROGRAM });
    const { DBUS_SESSION_BUS_ADDRESS, XDG_RUNTIME_DIR } = keyring.env;
    session = { DBUS_SESSION_BUS_ADDRESS, XDG_RUNTIME_DIR };
  });
  afterAll(async () => {
    await host?.stop();
    await keyring?.stop();
  });

  /** A key file that the server accepts. */
  function encryptedKey(type: "ed25519" | "ecdsa" | "rsa" = "ed25519"): string {
    const file = generateKey(host.path(host.newName("id")), type, PASSPHRASE);
    appendFileSync(join(host.sshd.folder, "authorized_keys"), readFileSync(`${file}.pub`));
    return file;
  }
  const clientWith = (identityFile: string, env: NodeJS.ProcessEnv = { ...NO_BUS, ...session }) =>
    host.client({ identityFile }, { env });
  const inspect = (client: RuntimeClient) => client.operation(["inspect", "--workspace-id", "none"]);
  async function codeOf(operation: Promise<OperationResult>): Promise<string> {
    const result = await operation;
    return result.code === 0 && result.stderr === "" ? "reached" : failureCode(result);
  }
  async function store(keyFile: string, secret = PASSPHRASE): Promise<void> {
    const args = ["auth", "set", `root@127.0.0.1:${host.sshd.port}`, "--passphrase", keyFile];
    const result = await clientWith(keyFile).run(args, `${secret}\n`);
    expect(result).toMatchObject({ code: 0, stderr: "" });
  }
  /** As the server logs the key that it has accepted. */
  const fingerprintOf = (keyFile: string) =>
    execFileSync("ssh-keygen", ["-l", "-f", `${keyFile}.pub`], { encoding: "utf8" }).split(" ")[1]!;

  it.each([
    ["ed25519", "RFC4716"],
    ["rsa", "RFC4716"],
    ["ecdsa", "RFC4716"],
    ["ecdsa", "PEM"],
    ["rsa", "PKCS8"],
    ["ecdsa", "PKCS8"],
  ] as const)("log in with the passphrase from the keychain: %s in the format %s", async (type, format) => {
    const keyFile = encryptedKey(type);
    execFileSync("ssh-keygen", ["-q", "-p", "-m", format, "-P", PASSPHRASE, "-N", PASSPHRASE, "-f", keyFile]);
    await keychain.ask({ type: "store", account: passphraseAccount(keyFile), secret: PASSPHRASE });
    const target = await resolve(host.sshd.options({ identityFile: keyFile }));
    await connect(target, { keychain });
    await expect.poll(() => host.sshd.log()).toContain(fingerprintOf(keyFile));
  });

  it("show their secret in no command line, environment, file or log", async () => {
    const keyFile = encryptedKey();
    await store(keyFile);
    const client = clientWith(keyFile);
    const watch = await watchProcesses(PASSPHRASE, "keychain.cjs", inspect(client));
    expect(watch.result.stdout).toContain("missing");
    expect(watch).toMatchObject({ exposed: [], witnessed: true });
    const status = await client.run(["status", "--json"]);
    expect(JSON.stringify([watch.result, status])).not.toContain(PASSPHRASE);
    for (const folder of [client.brokerFolder, host.root, host.sshd.folder]) {
      expect(filesWith(PASSPHRASE, folder)).toEqual([]);
    }
  });

  it("find the keychain of their caller over a broker that another session has started", async () => {
    const keyFile = encryptedKey();
    await store(keyFile);
    const other = clientWith(host.sshd.identityFile, NO_BUS);
    expect(await codeOf(inspect(other))).toBe("reached");
    expect(await codeOf(inspect(other.with({ options: { identityFile: keyFile }, env: session })))).toBe("reached");
  });

  it("are passed over when no passphrase is stored, or another one, and the next key is used", async () => {
    const unknown = encryptedKey();
    const changed = encryptedKey();
    await store(changed);
    execFileSync("ssh-keygen", ["-q", "-p", "-P", PASSPHRASE, "-N", "another phrase", "-f", changed]);
    const agent = await startSshAgent();
    onTestFinished(() => agent.stop());
    const env = { ...NO_BUS, ...session, SSH_AUTH_SOCK: agent.socket };

    const wrong = await inspect(clientWith(changed, env));
    expect(failureCode(wrong)).toBe("authentication-failed");
    expect(wrong.stderr).toMatch(/is protected by another passphrase than the one that is stored/);
    expect(wrong.stderr).not.toContain(PASSPHRASE);

    const missing = await inspect(clientWith(unknown, env));
    expect(failureCode(missing)).toBe("authentication-failed");
    expect(missing.stderr).toMatch(/is protected by a passphrase that is not stored/);
    expect(missing.stderr).toContain(`auth set root@127.0.0.1:${host.sshd.port} --passphrase ${unknown}`);

    agent.add(host.sshd.identityFile);
    const client = host.client({ identityFile: changed, identitiesOnly: false }, { env });
    expect(await codeOf(inspect(client))).toBe("reached");
  });

  it("are passed over where there is no keychain, which the failure says", async () => {
    const keyFile = encryptedKey();
    const agent = await startSshAgent();
    onTestFinished(() => agent.stop());
    const env = { ...NO_BUS, SSH_AUTH_SOCK: agent.socket };
    const client = host.client({ identityFile: keyFile, identitiesOnly: false }, { env });
    const refused = await inspect(client);
    expect(failureCode(refused)).toBe("authentication-failed");
    expect(refused.stderr).toMatch(/is protected by a passphrase: There is no keychain here \(.+\)/);

    agent.add(host.sshd.identityFile);
    expect(await codeOf(inspect(client))).toBe("reached");
  });

  it("are passed over when the keychain is locked", async () => {
    const locked = await startKeyring();
    onTestFinished(() => locked.stop());
    const keyFile = encryptedKey();
    const entry = { type: "store", account: passphraseAccount(keyFile), secret: PASSPHRASE } as const;
    await new Keychain(locked.env, { program: PROGRAM }).ask(entry);
    locked.lock();
    const target = await resolve(host.sshd.options({ identityFile: keyFile }), {
      identityFiles: [keyFile, host.sshd.identityFile],
    });
    expect(await connect(target, { keychain: new Keychain(locked.env, { program: PROGRAM }) })).toBeDefined();
  });

  it("are not unlocked for a server that does not want them", async () => {
    const stranger = generateKey(host.path(host.newName("id")), "ed25519", PASSPHRASE);
    const refused = await inspect(clientWith(stranger));
    expect(failureCode(refused)).toBe("authentication-failed");
    expect(refused.stderr).toContain(stranger);
    expect(refused.stderr).not.toContain("is protected");
  });
});

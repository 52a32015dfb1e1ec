import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Keychain } from "../../src/ssh/keychain.ts";
import { failureCode } from "../support/build-host.ts";
import { type Keyring, startKeyring } from "../support/keyring.ts";
import { describeWithPrograms } from "../support/requirements.ts";
import { LAUNCHER, RuntimeClient } from "../support/runtime.ts";
import { generateKey } from "../support/sshd.ts";

const PROGRAM = join(LAUNCHER, "../../dist/keychain.cjs");

/** What is used of node-pty, whose alias has no types. */
interface TerminalModule {
  spawn(
    file: string,
    args: string[],
    options: { env: NodeJS.ProcessEnv; cols: number; rows: number },
  ): {
    onData(listener: (data: string) => void): void;
    onExit(listener: (exit: { exitCode: number }) => void): void;
    write(data: string): void;
  };
}
const terminals = createRequire(import.meta.url)("node-pty") as TerminalModule;

const SECRET = "pass phrase with blanks ";
const ALIAS_ACCOUNT = "password builder@build.example.test:2222";

describeWithPrograms(
  "dbus-daemon",
  "dbus-send",
  "gnome-keyring-daemon",
)("paseo-ssh-runtime auth", () => {
  const folder = mkdtempSync(join(tmpdir(), "auth-"));
  const configFile = join(folder, "config");
  const keyFile = generateKey(join(folder, "id_locked"), "ed25519", SECRET);
  let keyring: Keyring;
  let client: RuntimeClient;

  beforeAll(async () => {
    const identity = `  IdentityFile ${keyFile}\n`;
    writeFileSync(configFile, `Host devbox\n  HostName build.example.test\n  User builder\n  Port 2222\n${identity}`);
    keyring = await startKeyring();
    client = new RuntimeClient({}, { env: { ...keyring.env, HOME: process.env.HOME } });
  });
  afterAll(async () => {
    await client?.close();
    await keyring?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const auth = (args: string[], input = "") =>
    client.run(["auth", ...args.slice(0, 1), "--ssh-config-file", configFile, ...args.slice(1)], input);
  const entries = () => new Keychain(keyring.env, { program: PROGRAM }).ask({ type: "list" });
  const secretOf = (account: string) =>
    new Keychain(keyring.env, { program: PROGRAM }).ask({ type: "secret", account });

  it("stores what standard input holds, but for one newline, under what ssh_config says about the host", async () => {
    expect(await auth(["set", "devbox"], "one\n")).toEqual({
      code: 0,
      signal: null,
      stdout: "Stored the password of builder@build.example.test:2222.\n",
      stderr: "",
    });
    expect(await secretOf(ALIAS_ACCOUNT)).toEqual({ type: "secret", secret: "one" });
    await auth(["set", "devbox", "--password", "--user", "other", "--port", "22"], " two ");
    expect(await secretOf("password other@build.example.test:22")).toEqual({ type: "secret", secret: " two " });
  });

  it("stores a passphrase only when it opens the key", async () => {
    const refused = await auth(["set", "devbox", "--passphrase", keyFile], "wrong\n");
    expect(failureCode(refused)).toBe("usage");
    expect(refused.stderr).toContain(`That is not the passphrase of ${keyFile}; nothing was stored`);
    expect(await secretOf(`passphrase ${keyFile}`)).toEqual({ type: "nothing" });

    const stored = await auth(["set", "devbox", "--passphrase", keyFile], `${SECRET}\n`);
    expect(stored).toMatchObject({ code: 0, stdout: `Stored the passphrase of ${keyFile}.\n`, stderr: "" });
    expect(await secretOf(`passphrase ${keyFile}`)).toEqual({ type: "secret", secret: SECRET });
  });

  it("says so when a key has no passphrase, is none, or is not used for that host", async () => {
    const open = generateKey(join(folder, "id_open"), "ed25519");
    expect((await auth(["set", "devbox", "--passphrase", open], "x")).stderr).toContain(`${open} has no passphrase`);
    const missing = join(folder, "id_missing");
    expect((await auth(["set", "devbox", "--passphrase", missing], "x")).stderr).toContain(`${missing} does not exist`);
    const other = generateKey(join(folder, "id_other"), "ed25519", SECRET);
    const stored = await auth(["set", "devbox", "--passphrase", other], SECRET);
    expect(stored.stdout).toContain("does not use this key yet");
  });

  it("lists what is stored, of all or of one host, and removes it", async () => {
    const all = await auth(["list"]);
    expect(all.stdout.split("\n")).toEqual([
      `passphrase ${keyFile}`,
      `passphrase ${join(folder, "id_other")}`,
      ALIAS_ACCOUNT,
      "password other@build.example.test:22",
      "",
    ]);
    const one = await auth(["list", "devbox", "--json"]);
    expect(JSON.parse(one.stdout)).toEqual({
      secrets: [
        { kind: "passphrase", keyFile },
        { kind: "password", account: "builder@build.example.test:2222" },
      ],
    });
    expect(all.stdout + one.stdout).not.toContain(SECRET);

    expect((await auth(["remove", "devbox", "--password"])).stdout).toBe(`Removed: ${ALIAS_ACCOUNT}.\n`);
    const other = join(folder, "id_other");
    expect((await auth(["remove", "devbox", "--passphrase", other])).stdout).toBe(`Removed: passphrase ${other}.\n`);
    expect((await auth(["remove", "devbox"])).stdout).toBe(`Removed: passphrase ${keyFile}.\n`);
    expect((await auth(["remove", "devbox"])).stdout).toBe("No such secret is stored.\n");
    expect(await entries()).toEqual({ type: "accounts", accounts: ["password other@build.example.test:22"] });
  });

  it("takes no secret that is empty or has several lines, and not both kinds at once", async () => {
    for (const input of ["", "\n", "a\nb\n", "x".repeat(4097)]) {
      expect(failureCode(await auth(["set", "devbox"], input))).toBe("usage");
    }
    const both = await auth(["set", "devbox", "--password", "--passphrase", keyFile], "x");
    expect(failureCode(both)).toBe("usage");
    expect(await secretOf(ALIAS_ACCOUNT)).toEqual({ type: "nothing" });
  });

  it("asks on a terminal, and shows nothing of what is typed", async () => {
    const terminal = onTerminal(["auth", "set", "devbox", "--ssh-config-file", configFile]);
    await terminal.sees("Password of builder@build.example.test:2222: ");
    terminal.type("hunX");
    terminal.type("\x7fter2\r");
    expect(await terminal.end()).toBe(0);
    expect(terminal.screen().replace(/\r/g, "")).toBe(
      "Password of builder@build.example.test:2222: \nStored the password of builder@build.example.test:2222.\n",
    );
    expect(await secretOf(ALIAS_ACCOUNT)).toEqual({ type: "secret", secret: "hunter2" });
  });

  it("stores nothing after Ctrl-C", async () => {
    const terminal = onTerminal(["auth", "set", "devbox", "--passphrase", keyFile, "--ssh-config-file", configFile]);
    await terminal.sees(`Passphrase of ${keyFile}: `);
    terminal.type(`${SECRET}\x03`);
    expect(await terminal.end()).toBe(1);
    expect(terminal.screen()).toContain("Nothing was stored. [cancelled]");
    expect(terminal.screen()).not.toContain(SECRET.trim());
    expect(await secretOf(`passphrase ${keyFile}`)).toEqual({ type: "nothing" });
  });

  it("does not ask where there is no keychain, and names the ssh agent", async () => {
    const env = { ...client.env, DBUS_SESSION_BUS_ADDRESS: "unix:path=/nonexistent", XDG_RUNTIME_DIR: folder };
    const child = spawn(process.execPath, [LAUNCHER, "auth", "set", "devbox", "--ssh-config-file", configFile], {
      env,
      stdio: ["pipe", "ignore", "pipe"],
    });
    let stderr = "";
    child.stderr.on("data", (chunk) => {
      stderr += chunk;
    });
    // Its standard input stays open: it must not wait for a secret.
    const [code] = await once(child, "close");
    expect(code).toBe(1);
    expect(stderr).toMatch(/^There is no keychain here \(.+\)\. .*ssh-add.* \[keychain-unavailable\]\n$/);
  });

  function onTerminal(args: string[]) {
    const pty = terminals.spawn(process.execPath, [LAUNCHER, ...args], { env: client.env, cols: 200, rows: 24 });
    let screen = "";
    let look = () => {};
    pty.onData((data) => {
      screen += data;
      look();
    });
    const ended = new Promise<number>((resolve) => pty.onExit(({ exitCode }) => resolve(exitCode)));
    return {
      type: (keys: string) => pty.write(keys),
      screen: () => screen,
      end: () => ended,
      sees: (text: string) =>
        new Promise<void>((resolve) => {
          look = () => {
            if (screen.includes(text)) resolve();
          };
          look();
        }),
    };
  }
});

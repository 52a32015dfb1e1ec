import { realpathSync } from "node:fs";
import { homedir } from "node:os";
import { resolve } from "node:path";
import { readIdentity, readKeyFile } from "../ssh/identity-files.ts";
import { Keychain, parseRuntimeOptions, resolveTarget, type SshTarget, targetName } from "../ssh/index.ts";
import { passphraseAccount, passwordAccount } from "../ssh/keychain-protocol.ts";
import { unlockKey } from "../ssh/unlock-key.ts";
import { RuntimeError } from "../wire/errors.ts";
import { callerEnvironment } from "../wrapper/dial.ts";
import { readSecret } from "./secret-input.ts";

/** `paseo-ssh-runtime auth …`: what the broker finds in the keychain when a host asks for it. */

export interface AuthOptions {
  password?: true;
  /** A key file. */
  passphrase?: string;
  user?: string;
  port?: number;
  sshConfigFile?: string;
  json?: true;
}

/** A keychain that is locked asks the person who has typed this command. Milliseconds. */
const DEADLINE_MS = 60_000;

/** @throws RuntimeError usage, option-invalid, keychain-unavailable, cancelled */
export async function setSecret(host: string, options: AuthOptions): Promise<void> {
  if (options.password && options.passphrase !== undefined) throw oneKind();
  const target = await targetOf(host, options);
  const keychain = keychainOfCaller();
  // Nobody is asked for a secret that there is no place for.
  await keychain.ask({ type: "list" });
  if (options.passphrase === undefined) {
    const secret = await readSecret(`Password of ${targetName(target)}: `);
    await keychain.ask({ type: "store", account: passwordAccount(target), secret });
    console.log(`Stored the password of ${targetName(target)}.`);
    return;
  }
  const keyFile = keyFileOf(options.passphrase);
  const key = encryptedKey(keyFile);
  const secret = await readSecret(`Passphrase of ${keyFile}: `);
  if (unlockKey(key, secret) === undefined) {
    throw new RuntimeError("usage", `That is not the passphrase of ${keyFile}; nothing was stored`, "Try again");
  }
  await keychain.ask({ type: "store", account: passphraseAccount(keyFile), secret });
  console.log(`Stored the passphrase of ${keyFile}.`);
  if (!keyFilesOf(target).includes(keyFile)) {
    console.log(
      `${targetName(target)} does not use this key yet: name it with IdentityFile, or the option identityFile.`,
    );
  }
}

/** @throws RuntimeError option-invalid, keychain-unavailable */
export async function listSecrets(host: string | undefined, options: AuthOptions): Promise<void> {
  const entries = await entriesOf(host, options, keychainOfCaller());
  if (options.json) console.log(JSON.stringify({ secrets: entries.map(describeEntry) }));
  else if (entries.length === 0) console.log("No secrets are stored.");
  else for (const account of entries) console.log(account);
}

/** @throws RuntimeError usage, option-invalid, keychain-unavailable */
export async function removeSecrets(host: string, options: AuthOptions): Promise<void> {
  if (options.password && options.passphrase !== undefined) throw oneKind();
  const keychain = keychainOfCaller();
  const entries = await entriesOf(host, options, keychain);
  const chosen = entries.filter(
    (account) =>
      (options.passphrase === undefined || account === passphraseAccount(keyFileOf(options.passphrase))) &&
      (!options.password || account.startsWith("password ")),
  );
  for (const account of chosen) await keychain.ask({ type: "remove", account });
  console.log(chosen.length === 0 ? "No such secret is stored." : `Removed: ${chosen.join(", ")}.`);
}

/** Names of the entries in the keychain, of one host or of all. */
async function entriesOf(host: string | undefined, options: AuthOptions, keychain: Keychain): Promise<string[]> {
  const target = host === undefined ? undefined : await targetOf(host, options);
  const reply = await keychain.ask({ type: "list" });
  const accounts = reply.type === "accounts" ? reply.accounts.sort() : [];
  if (target === undefined) return accounts;
  const files = [...keyFilesOf(target), ...(options.passphrase === undefined ? [] : [keyFileOf(options.passphrase)])];
  const own = [passwordAccount(target), ...files.map(passphraseAccount)];
  return accounts.filter((account) => own.includes(account));
}

function describeEntry(account: string): Record<string, string> {
  const [kind, name] = [account.slice(0, account.indexOf(" ")), account.slice(account.indexOf(" ") + 1)];
  return kind === "password" ? { kind, account: name } : { kind, keyFile: name };
}

async function targetOf(host: string, { user, port, sshConfigFile }: AuthOptions): Promise<SshTarget> {
  const given = {
    host,
    ...(user === undefined ? {} : { user }),
    ...(port === undefined ? {} : { port }),
    ...(sshConfigFile === undefined ? {} : { sshConfigFile: absolute(sshConfigFile) }),
  };
  return await resolveTarget(parseRuntimeOptions(given), process.env);
}

function keychainOfCaller(): Keychain {
  return new Keychain(callerEnvironment(process.env), { deadlineMs: DEADLINE_MS });
}

/** The key files that a login tries, as far as they exist. */
function keyFilesOf(target: SshTarget): string[] {
  return [...target.identityFiles, ...target.defaultIdentityFiles].flatMap((file) => {
    try {
      return [realpathSync(file)];
    } catch {
      return [];
    }
  });
}

/** As the keychain program names it. @returns the path without symbolic links, or as it is when there is no such file */
function keyFileOf(path: string): string {
  const file = absolute(path);
  try {
    return realpathSync(file);
  } catch {
    return file;
  }
}

function absolute(path: string): string {
  return resolve(path.replace(/^~(?=\/|$)/, homedir()));
}

/** @throws RuntimeError usage when a passphrase would be of no use for it */
function encryptedKey(keyFile: string): string {
  const text = readKeyFile(keyFile);
  const { encrypted, publicBlob, problem } = readIdentity(keyFile);
  const reason = typeof text !== "string" ? text.problem : encrypted ? undefined : (problem ?? "has no passphrase");
  if (typeof text === "string" && reason === undefined && publicBlob !== undefined) return text;
  throw new RuntimeError(
    "usage",
    `${keyFile} ${reason ?? "needs its public half beside it, which is missing"}`,
    reason === undefined
      ? `Make it with: ssh-keygen -y -f ${keyFile} > ${keyFile}.pub`
      : "Name a private key that has a passphrase",
  );
}

function oneKind(): RuntimeError {
  return new RuntimeError("usage", "--password and --passphrase exclude each other", "Use one of them");
}

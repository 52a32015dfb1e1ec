import { createInterface } from "node:readline";
import { type HostKey, Keychain, parseRuntimeOptions, readHostKey, resolveTarget, trustHostKey } from "../ssh/index.ts";
import { RuntimeError } from "../wire/errors.ts";
import { callerEnvironment } from "../wrapper/dial.ts";
import { type HostArguments, rawOptions } from "./host-arguments.ts";

export interface TrustArguments extends HostArguments {
  fingerprint?: string;
}

/**
 * `paseo-ssh-runtime trust HOST`: shows the key of a host and files it when the person accepts it.
 * @throws RuntimeError usage, host-key-unknown when it is not accepted, and what `readHostKey` and `trustHostKey` throw
 */
export async function trust(host: string | undefined, args: TrustArguments): Promise<void> {
  const expected = args.fingerprint === undefined ? undefined : checkFingerprint(args.fingerprint);
  const isTerminal = process.stdin.isTTY === true && process.stdout.isTTY === true;
  const caller = callerEnvironment(process.env);
  const target = await resolveTarget(parseRuntimeOptions(rawOptions(host, args)), caller);
  const key = await readHostKey(target, {
    authSock: caller.SSH_AUTH_SOCK,
    env: caller,
    keychain: new Keychain(caller),
  });
  if (expected !== undefined && expected !== key.fingerprint) throw notThatKey(key, expected);
  if (key.knownAt !== undefined) {
    console.log(`The host key of ${key.name} is known already (${key.knownAt}): ${key.type} ${key.fingerprint}`);
    return;
  }
  console.log(`The host key of ${key.name} is not known yet: ${key.type} ${key.fingerprint}\n${key.randomart}`);
  if (expected === undefined) {
    if (!isTerminal) throw needsFingerprint(target.commandArguments, key);
    await confirm(key);
  }
  const file = trustHostKey(target, key.blob);
  console.log(file === undefined ? "Somebody else has filed it meanwhile." : `Filed in ${file}.`);
}

async function confirm(key: HostKey): Promise<void> {
  console.log("Compare it with what somebody says who is on that host: ssh-keygen -lvf /etc/ssh/ssh_host_*_key.pub");
  const terminal = createInterface({
    input: process.stdin,
    output: process.stdout,
    prompt: "Trust this key (yes/no)? ",
  });
  terminal.prompt();
  try {
    // Ctrl-C and Ctrl-D end it.
    for await (const line of terminal) {
      const answer = line.trim().toLowerCase();
      if (answer === "yes") return;
      if (answer === "no") break;
      terminal.setPrompt('Please type "yes" or "no": ');
      terminal.prompt();
    }
  } finally {
    terminal.close();
  }
  throw new RuntimeError("host-key-unknown", `The host key of ${key.name} was not accepted; nothing has been filed`);
}

/** With or without the padding of base64, which ssh-keygen leaves out. */
function checkFingerprint(text: string): string {
  if (/^SHA256:[A-Za-z0-9+/]{43}=?$/.test(text)) return text.replace(/=$/, "");
  throw new RuntimeError(
    "usage",
    "--fingerprint is not a SHA256 fingerprint",
    "Take what this prints on the host: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub",
  );
}

function notThatKey(key: HostKey, expected: string): RuntimeError {
  return new RuntimeError(
    "host-key-unknown",
    `The host key of ${key.name} is ${key.type} ${key.fingerprint}, not ${expected}. Nothing has been filed`,
    "Check whether the fingerprint is that of another key of the host; if not, somebody may be intercepting the connection",
  );
}

function needsFingerprint(commandArguments: string, key: HostKey): RuntimeError {
  return new RuntimeError(
    "usage",
    `There is no terminal to ask on whether the host key of ${key.name} is right`,
    `If the host's administrator confirms it, run: paseo-ssh-runtime trust ${commandArguments} --fingerprint ${key.fingerprint}`,
  );
}

import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { fields, textOf } from "../wire/checks.ts";
import { oneLine, RuntimeError } from "../wire/errors.ts";
import {
  type KeychainReply,
  type KeychainRequest,
  MAX_MESSAGE_BYTES,
  MAX_SECRET_CHARACTERS,
} from "./keychain-protocol.ts";

/** Variables by which a program finds the keychain of the person that it works for. */
const VARIABLES = ["HOME", "PATH", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"] as const;

export type KeychainEnvironment = { [name in (typeof VARIABLES)[number]]?: string | undefined };

/** While a host is being connected: a keychain that is locked may ask a person, and nobody may be there. Milliseconds. */
const LOOK_UP_DEADLINE_MS = 5_000;

/** The bundle of keychain-program.ts lies beside all others. */
const PROGRAM = join(import.meta.dirname, "keychain.cjs");
const MAX_REASON_CHARACTERS = 200;
const MAX_ACCOUNT_CHARACTERS = 8192;

/**
 * The keychain of the operating system (Secret Service on Linux, Keychain on macOS), as one caller sees it. Every
 * request is a process of its own, which gets nothing but the variables above, and is killed at the deadline.
 */
export class Keychain {
  readonly #env: NodeJS.ProcessEnv;
  readonly #deadlineMs: number;
  readonly #program: string;
  #failure: RuntimeError | undefined;

  /**
   * @param env the caller's; that of this process is not looked at
   * @param settings deadlineMs: for one answer; program: the built keychain program
   */
  constructor(env: KeychainEnvironment, settings: { deadlineMs?: number; program?: string } = {}) {
    this.#env = {};
    for (const name of VARIABLES) if (env[name]) this.#env[name] = env[name];
    this.#deadlineMs = settings.deadlineMs ?? LOOK_UP_DEADLINE_MS;
    this.#program = settings.program ?? PROGRAM;
  }

  /**
   * One that could not be asked is not asked again: each question may have to wait for the deadline.
   * @throws RuntimeError keychain-unavailable: no keychain, no library for it, locked, or no answer in time
   */
  async ask(request: KeychainRequest): Promise<KeychainReply> {
    if (this.#failure !== undefined) throw this.#failure;
    try {
      return await this.#ask(request);
    } catch (error) {
      this.#failure = RuntimeError.from(error);
      throw this.#failure;
    }
  }

  async #ask(request: KeychainRequest): Promise<KeychainReply> {
    const child = spawn(process.execPath, [this.#program], {
      cwd: "/",
      env: this.#env,
      stdio: ["pipe", "pipe", "ignore"],
    });
    const text = await this.#exchange(child, JSON.stringify(request));
    let reply: KeychainReply;
    try {
      reply = parseReply(text);
    } catch {
      throw unavailable("the program that asks it ended without an answer");
    }
    if (reply.type === "unavailable") throw unavailable(reply.reason);
    return reply;
  }

  #exchange(child: ChildProcess, request: string): Promise<string> {
    return new Promise((resolve, reject) => {
      const chunks: Buffer[] = [];
      let size = 0;
      const timer = setTimeout(() => {
        child.kill("SIGKILL");
        reject(unavailable(`no answer within ${this.#deadlineMs / 1000} s; it may be locked`));
      }, this.#deadlineMs);
      child.once("error", (error) => {
        clearTimeout(timer);
        reject(unavailable(error.message));
      });
      child.stdout!.on("data", (chunk: Buffer) => {
        size += chunk.length;
        if (size > MAX_MESSAGE_BYTES) child.kill("SIGKILL");
        else chunks.push(chunk);
      });
      child.once("close", () => {
        clearTimeout(timer);
        resolve(Buffer.concat(chunks).toString("utf8"));
      });
      // It may end before it has read everything.
      child.stdin!.on("error", () => {});
      child.stdin!.end(request);
    });
  }
}

function unavailable(reason: string): RuntimeError {
  return new RuntimeError(
    "keychain-unavailable",
    `There is no keychain here (${oneLine(reason).slice(0, MAX_REASON_CHARACTERS)})`,
    "Hand the key to the ssh agent with ssh-add instead, or log in to a session that has a keychain",
  );
}

/** @throws Error when it is no reply */
function parseReply(text: string): KeychainReply {
  const value: unknown = JSON.parse(text);
  const data = fields(value, "type", "secret", "signature", "accounts", "reason");
  switch (data.type) {
    case "secret":
      return { type: data.type, secret: textOf(data, "secret", MAX_SECRET_CHARACTERS) };
    case "signature":
      return { type: data.type, signature: textOf(data, "signature", MAX_MESSAGE_BYTES) };
    case "unavailable":
      return { type: data.type, reason: textOf(data, "reason", MAX_MESSAGE_BYTES) };
    case "accounts": {
      const accounts: unknown = data.accounts;
      if (!Array.isArray(accounts)) throw new Error("accounts");
      return {
        type: data.type,
        accounts: accounts.map((account) => textOf({ account }, "account", MAX_ACCOUNT_CHARACTERS)),
      };
    }
    case "done":
    case "nothing":
    case "wrong":
      return { type: data.type };
    default:
      throw new Error("type");
  }
}

import { createHmac, randomBytes } from "node:crypto";
import type { KeyboardInteractiveAuthMethod } from "ssh2";
import { oneLine, RuntimeError } from "../wire/errors.ts";
import type { Keychain } from "./keychain.ts";
import { passwordAccount } from "./keychain-protocol.ts";
import { type SshTarget, targetName } from "./target.ts";

type Prompts = Parameters<KeyboardInteractiveAuthMethod["prompt"]>[3];

const MAX_PROMPT_CHARACTERS = 100;
const MAX_PROMPTS = 3;

/** The word for it in the languages that PAM and its common modules are translated to most. */
const PASSWORD_PROMPT =
  /passw|kennwort|mot de passe|contraseña|senha|lösenord|wachtwoord|hasło|heslo|пароль|密码|密碼|パスワード|암호/i;
/** "One-time password (OATH) for …", "New password:", "Password + code:": not the password, or not it alone. */
const OTHER_PROMPT = /one.?time|\botp\b|oath|token|code|verif|\bnew\b|retype|again/i;

/**
 * Passwords that a server has refused, by account: servers lock accounts, and hundreds of operations may follow. Only
 * a digest is kept, under a key that this process has drawn; another password in the keychain is tried again.
 */
const refusedDigests = new Map<string, string>();
const digestKey = randomBytes(32);

/** The password of one account as the keychain has it, for one attempt to log in. It is not kept here. */
export class StoredPassword {
  readonly #target: SshTarget;
  readonly #keychain: Keychain | undefined;
  readonly #account: string;
  #sentDigest: string | undefined;
  #problem: string | undefined;
  #absent = false;

  constructor(target: SshTarget, keychain: Keychain | undefined) {
    this.#target = target;
    this.#keychain = keychain;
    this.#account = passwordAccount(target);
  }

  /** A server has been sent the password. */
  get sent(): boolean {
    return this.#sentDigest !== undefined;
  }

  /** Why a password or an answer was not sent. */
  get problem(): string | undefined {
    return this.#problem;
  }

  async isUsable(): Promise<boolean> {
    return (await this.#read()) !== undefined;
  }

  /** The password, to be sent at once. @returns undefined when there is none, or it was refused before */
  async take(): Promise<string | undefined> {
    const password = await this.#read();
    if (password !== undefined) this.#sentDigest = digestOf(password);
    return password;
  }

  /** The server did not accept what it was sent. */
  refused(): void {
    if (this.#sentDigest !== undefined) refusedDigests.set(this.#account, this.#sentDigest);
    this.#problem = `the stored password, which the server refused (${this.#command})`;
  }

  /**
   * Answers for one keyboard-interactive login (RFC 4256), which may ask several times: the password when the server
   * asks for it and for nothing else, and no answers to any other question, which ends that method.
   */
  dialogue(): (prompts: Prompts) => Promise<string[]> {
    let answered = false;
    return async (prompts) => {
      const [first] = prompts;
      if (first === undefined) return [];
      const { prompt: question, echo } = first;
      const isPassword = PASSWORD_PROMPT.test(question) && !OTHER_PROMPT.test(question);
      if (prompts.length > 1 || echo !== false || !isPassword) {
        this.#problem = `keyboard-interactive, where the server asks ${listOf(prompts)}, to which there is no stored answer`;
        return [];
      }
      if (answered) {
        this.refused();
        return [];
      }
      answered = true;
      const password = await this.take();
      return password === undefined ? [] : [password];
    };
  }

  get #command(): string {
    return `paseo-ssh-runtime auth set ${targetName(this.#target)} --password`;
  }

  async #read(): Promise<string | undefined> {
    if (this.#keychain === undefined || this.#absent) return undefined;
    try {
      const reply = await this.#keychain.ask({ type: "secret", account: this.#account });
      if (reply.type !== "secret")
        this.#problem = `a password, since none is stored, or the keychain is locked (${this.#command})`;
      else if (refusedDigests.get(this.#account) === digestOf(reply.secret))
        this.#problem = `the stored password, which the server has refused before (${this.#command})`;
      else return reply.secret;
    } catch (error) {
      this.#problem = `a password: ${RuntimeError.from(error).message}`;
    }
    this.#absent = true;
    return undefined;
  }
}

function listOf(prompts: Prompts): string {
  const texts = prompts.slice(0, MAX_PROMPTS).map(({ prompt }) => oneLine(prompt).slice(0, MAX_PROMPT_CHARACTERS));
  return texts.map((text) => `"${text}"`).join(" and ");
}

function digestOf(password: string): string {
  return createHmac("sha256", digestKey).update(password).digest("base64");
}

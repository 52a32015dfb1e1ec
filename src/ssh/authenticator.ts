import type { AnyAuthMethod, AuthenticationType, NextAuthHandler } from "ssh2";
import { RuntimeError } from "../wire/errors.ts";
import type { AuthenticationAttempt, AuthenticationPlan } from "./auth.ts";
import type { LoginMethod } from "./authentication-methods.ts";
import type { StoredPassword } from "./stored-password.ts";
import { type SshTarget, targetName } from "./target.ts";

/** Refusals after which a stock server hangs up (MaxAuthTries in sshd_config(5)). */
const MAX_AUTH_TRIES = 6;

const PASSWORD_LABEL = "the stored password";

/**
 * Leads one login through the methods in OpenSSH's order (userauth in sshconnect2.c): "none" first, which says what
 * the server accepts, then each method that ssh_config prefers, and after a partial success those that are left.
 */
export class Authenticator {
  readonly #target: SshTarget;
  readonly #plan: AuthenticationPlan;
  readonly #password: StoredPassword;
  readonly #offered: string[] = [];
  readonly #tried = new Set<LoginMethod>();
  #keysOffered = 0;
  #last: AuthenticationAttempt | LoginMethod | "none" | undefined;
  #accepts: readonly string[] | undefined;
  #asksWhatIsAccepted = true;
  #partial = false;
  /** The last request carried the password. */
  #passwordInFlight = false;
  #refusals = 0;
  #exhausted = false;

  constructor(target: SshTarget, plan: AuthenticationPlan, password: StoredPassword) {
    this.#target = target;
    this.#plan = plan;
    this.#password = password;
  }

  get hasOffered(): boolean {
    return this.#offered.length > 0;
  }

  /** Nothing is left to try. */
  get exhausted(): boolean {
    return this.#exhausted;
  }

  /** What was tried last; after a login, what let us in. */
  get lastTried(): string {
    return this.#last === "none" ? "no key" : (this.#offered.at(-1) ?? "no key");
  }

  /** The same for a person, with what was offered in vain before. */
  get trail(): string {
    const before = this.#last === "none" ? this.#offered : this.#offered.slice(0, -1);
    return before.length === 0 ? this.lastTried : `${this.lastTried}, after: ${before.join("; ")}`;
  }

  /** The `authHandler` of ssh2. */
  readonly handler = (accepts: AuthenticationType[] | null, partial: boolean | null, next: NextAuthHandler): void => {
    this.#learn(accepts, partial === true);
    void this.#choose().then((method) => {
      this.#exhausted = method === undefined;
      // ssh2 documents false for "no more methods", but its types do not have it.
      next(method ?? (false as unknown as AuthenticationType));
    });
  };

  /** @param serverText what the server said when it hung up */
  failure(serverText?: string): RuntimeError {
    const name = targetName(this.#target);
    const offered = this.#offered.length === 0 ? "there was no key to offer" : `offered: ${this.#offered.join("; ")}`;
    const said = serverText ? ` (the server said: ${serverText.slice(0, 200)})` : "";
    const accepts = this.#accepts?.length ? `; the server accepts ${this.#accepts.join(", ")}` : "";
    const notes = this.#notes();
    const verdict = this.#password.sent ? "refused the login" : "accepted no key";
    return new RuntimeError(
      "authentication-failed",
      this.#partial
        ? `${name} accepted ${this.#firstFactor} but wants a second method as well${accepts}`
        : `${name} ${verdict}; ${offered}${accepts}${said}`,
      `Add the right key to the ssh agent with ssh-add, or name its file with the option identityFile${notes.length === 0 ? "" : `. Not used: ${notes.join("; ")}`}`,
    );
  }

  /** The server wants a new password before it lets anybody in. */
  passwordExpired(): RuntimeError {
    return new RuntimeError(
      "authentication-failed",
      `${targetName(this.#target)} wants the password to be changed, since it has expired`,
      `Change it with "ssh ${targetName(this.#target)}", then store the new one with: paseo-ssh-runtime auth set ${targetName(this.#target)} --password`,
    );
  }

  get #firstFactor(): string {
    return this.#keysOffered === 0 ? PASSWORD_LABEL : "a key";
  }

  #notes(): string[] {
    const declined = this.#plan.attempts.flatMap(({ label, agent }) =>
      agent.problem === undefined ? [] : [`${label} ${agent.problem}`],
    );
    return [
      ...declined,
      ...this.#plan.notes,
      ...(this.#password.problem === undefined ? [] : [this.#password.problem]),
    ];
  }

  /** Takes in what became of the last request. */
  #learn(accepts: readonly string[] | null, partial: boolean): void {
    const last = this.#last;
    if (last === undefined) return;
    if (typeof last === "object") {
      // ssh2 keeps the server's answer about a key of an agent to itself. One that was good enough to be asked for a
      // signature, and did not let us in, is one of several factors; the server is asked again what is left.
      this.#asksWhatIsAccepted = last.agent.signed;
      this.#refusals += last.agent.signed ? 0 : 1;
      return;
    }
    const before = this.#accepts?.join();
    if (accepts !== null && accepts.length > 0) this.#accepts = accepts;
    if (last === "none") {
      // Only the first one is free.
      if (before === undefined) return;
      this.#refusals += 1;
      if (this.#accepts?.join() !== before) this.#succeededPartially();
      return;
    }
    if (partial) this.#succeededPartially();
    else this.#refusals += 1;
    if (this.#passwordInFlight && !partial) this.#password.refused();
    this.#passwordInFlight = false;
  }

  /** As in OpenSSH each method may be used again for what is left. */
  #succeededPartially(): void {
    this.#partial = true;
    this.#tried.clear();
  }

  async #choose(): Promise<AnyAuthMethod | undefined> {
    if (this.#asksWhatIsAccepted) {
      this.#asksWhatIsAccepted = false;
      this.#last = "none";
      return { type: "none", username: this.#target.user };
    }
    for (const name of this.#methods()) {
      const method = await this.#attempt(name);
      if (method !== undefined) return method;
    }
    return undefined;
  }

  /** What both sides have, in our order. */
  #methods(): LoginMethod[] {
    return this.#target.preferredAuthentications.filter((name) => this.#accepts?.includes(name) ?? true);
  }

  async #attempt(name: LoginMethod): Promise<AnyAuthMethod | undefined> {
    if (name === "publickey") return await this.#nextKey();
    if (this.#tried.has(name)) return undefined;
    this.#tried.add(name);
    return name === "password" ? await this.#sendPassword() : await this.#answerQuestions();
  }

  async #nextKey(): Promise<AnyAuthMethod | undefined> {
    // The last refusals that a server takes belong to the password, where there is one to send after the keys.
    const kept = this.#methods().filter((name) => name !== "publickey" && !this.#tried.has(name)).length;
    if (kept > 0 && this.#refusals >= MAX_AUTH_TRIES - kept && (await this.#password.isUsable())) return undefined;
    const attempt = this.#plan.attempts[this.#keysOffered];
    if (attempt === undefined) return undefined;
    this.#keysOffered += 1;
    this.#last = attempt;
    this.#offered.push(attempt.label);
    return { type: "agent", username: this.#target.user, agent: attempt.agent };
  }

  async #sendPassword(): Promise<AnyAuthMethod | undefined> {
    const password = await this.#password.take();
    if (password === undefined) return undefined;
    this.#last = "password";
    this.#passwordInFlight = true;
    this.#offered.push(PASSWORD_LABEL);
    return { type: "password", username: this.#target.user, password };
  }

  async #answerQuestions(): Promise<AnyAuthMethod | undefined> {
    // Where keys were refused and no password is stored, questions would only make the server count one more failure.
    const mayHelp = this.#partial || !this.#accepts?.includes("publickey");
    if (!mayHelp && !(await this.#password.isUsable())) return undefined;
    this.#last = "keyboard-interactive";
    const dialogue = this.#password.dialogue();
    return {
      type: "keyboard-interactive",
      username: this.#target.user,
      prompt: (_name, _instructions, _language, prompts, finish) => {
        void dialogue(prompts).then((answers) => {
          this.#passwordInFlight = answers.length > 0;
          if (this.#passwordInFlight) this.#offered.push(PASSWORD_LABEL);
          finish(answers);
        });
      },
    };
  }
}

import { RuntimeError } from "../../wire/errors.ts";

/** What a doctor does and finds, step by step. */

/** In the order in which they come. A host that is reached over others has some of them once for each. */
export const STEPS = [
  "configuration",
  "name",
  "transport",
  "host-key",
  "login",
  "host",
  "agent",
  "stream",
  "broker",
  "helper",
  "workspace",
  "exec",
  "terminal",
  "clean-up",
] as const;
export type Step = (typeof STEPS)[number];

/** What was found, for a person and for scripts: texts, numbers and lists of texts. Names are shown as words. */
export type Findings = Record<string, string | number | readonly string[]>;

export type StepResult =
  | { step: Step; status: "ok"; milliseconds: number; found: Findings }
  | { step: Step; status: "failed"; milliseconds: number; error: { code: string; cause: string; remedy: string } }
  | { step: Step; status: "skipped" };

/** Whoever shows the steps while they are taken. */
export interface Observer {
  begun(step: Step): void;
  ended(result: StepResult): void;
}

/** A step has failed, and what was to follow is pointless. It is recorded already. */
export class Pointless extends Error {}

export class Examination {
  readonly results: StepResult[] = [];
  readonly #observer: Observer;
  #current: { step: Step; begunAt: number } | undefined;

  constructor(observer: Observer) {
    this.#observer = observer;
  }

  get ok(): boolean {
    return this.results.every(({ status }) => status === "ok");
  }

  begin(step: Step): void {
    this.#current = { step, begunAt: performance.now() };
    this.#observer.begun(step);
  }

  /** The step that was begun has succeeded. */
  succeed(found: Findings): void {
    this.#end(({ step, milliseconds }) => ({ step, status: "ok", milliseconds, found }));
  }

  /** The step that was begun has failed. @param instead the step that it turned out to be about */
  fail(error: unknown, instead?: Step): void {
    const { code, message: cause, remedy } = RuntimeError.from(error);
    this.#end(({ step, milliseconds }) => ({
      step: instead ?? step,
      status: "failed",
      milliseconds,
      error: { code, cause, remedy },
    }));
  }

  /**
   * Takes one step. @returns what its action returned
   * @param action `found` is shown, `value` is for the steps behind it
   * @throws Pointless when it fails
   */
  async step<Value>(step: Step, action: () => Promise<{ found: Findings; value: Value }>): Promise<Value> {
    this.begin(step);
    try {
      const { found, value } = await action();
      this.succeed(found);
      return value;
    } catch (error) {
      this.fail(error);
      throw new Pointless();
    }
  }

  /** Records the steps that were never taken. */
  finish(): void {
    const taken = new Set(this.results.map(({ step }) => step));
    for (const step of STEPS.filter((name) => !taken.has(name))) this.#record({ step, status: "skipped" });
  }

  #end(resultOf: (current: { step: Step; milliseconds: number }) => StepResult): void {
    const { step, begunAt } = this.#current!;
    this.#current = undefined;
    this.#record(resultOf({ step, milliseconds: Math.round((performance.now() - begunAt) * 10) / 10 }));
  }

  #record(result: StepResult): void {
    this.results.push(result);
    this.#observer.ended(result);
  }
}

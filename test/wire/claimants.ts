import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { onTestFinished } from "vitest";

/** A process of its own that claims names (test/fixtures/claimant.ts). */
export class Claimant {
  readonly child: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  constructor(program: string, folder: string) {
    this.child = spawn(process.execPath, [program, folder], { stdio: ["pipe", "pipe", "inherit"] });
    this.#lines = createInterface({ input: this.child.stdout! })[Symbol.asyncIterator]();
    onTestFinished(() => {
      this.child.kill("SIGKILL");
    });
  }

  get pid(): number {
    return this.child.pid!;
  }

  /** Sends a line. @returns the answer */
  async obey(line: string): Promise<Record<string, unknown>> {
    this.child.stdin!.write(`${line}\n`);
    const { value, done } = await this.#lines.next();
    if (done) throw new Error("the claimant is gone");
    return JSON.parse(value);
  }

  async kill(): Promise<void> {
    const exited = once(this.child, "exit");
    this.child.kill("SIGKILL");
    await exited;
  }
}

/** The pid that the process behind a socket answers with; undefined when nobody listens. */
export async function whoAnswers(path: string): Promise<number | undefined> {
  const socket = connect(path);
  try {
    return Number(await text(socket));
  } catch {
    return undefined;
  }
}

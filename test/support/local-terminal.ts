import { createRequire } from "node:module";

/** What is used of node-pty, whose declarations are those of the package under its other name. */
interface NodePty {
  spawn(
    file: string,
    args: string[],
    options: { cols: number; rows: number; env: NodeJS.ProcessEnv },
  ): {
    write(text: string): void;
    onData(listener: (text: string) => void): void;
    onExit(listener: (end: { exitCode: number }) => void): void;
  };
}
const { spawn }: NodePty = createRequire(import.meta.url)("node-pty");

/** A program on a terminal of this machine, and the person in front of it. */
export class LocalTerminal {
  readonly #ended: Promise<number>;
  #screen = "";
  readonly #write: (text: string) => void;
  #onData: () => void = () => {};

  constructor(argv: string[], env: NodeJS.ProcessEnv) {
    const [file = "", ...args] = argv;
    const pty = spawn(file, args, { cols: 200, rows: 50, env });
    this.#write = (text) => pty.write(text);
    pty.onData((text) => {
      this.#screen += text;
      this.#onData();
    });
    this.#ended = new Promise((resolve) => {
      pty.onExit(({ exitCode }) => {
        resolve(exitCode);
        this.#onData();
      });
    });
  }

  /** Everything that was shown so far. */
  get screen(): string {
    return this.#screen;
  }

  /** Waits until this text has been shown. @throws Error when the program ends before */
  async sees(text: string): Promise<void> {
    let ended = false;
    void this.#ended.then(() => {
      ended = true;
    });
    while (!this.#screen.includes(text)) {
      if (ended) throw new Error(`the program ended without ${JSON.stringify(text)}: ${JSON.stringify(this.#screen)}`);
      await new Promise<void>((resolve) => {
        this.#onData = resolve;
      });
    }
  }

  type(text: string): void {
    this.#write(text);
  }

  /** @returns the exit status */
  ended(): Promise<number> {
    return this.#ended;
  }
}

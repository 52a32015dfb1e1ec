import type { Exec, ExecResult, RuntimeClient, SpawnOptions } from "./runtime.ts";
import { Output, PATH } from "./side-by-side.ts";

/** A command on a terminal, for a test that sits in front of it. */
export class Terminal {
  readonly exec: Exec;
  readonly #output: Output;
  #resizes = 0;

  constructor(client: RuntimeClient, workspaceId: string, argv: string[], options: Partial<SpawnOptions> = {}) {
    this.exec = client.exec(workspaceId, {
      argv,
      env: { PATH, TERM: "xterm-256color", LC_ALL: "C.UTF-8", HOME: "/nowhere" },
      stdio: { kind: "pty", rows: 24, cols: 80 },
      collectOutput: false,
      ...options,
    });
    this.#output = new Output(this.exec.child.stdout!);
  }

  type(text: string | Buffer): void {
    this.exec.stdin.write(text);
  }

  /** Asks for a new size. @returns its id */
  resize(rows: number, cols: number): number {
    this.#resizes += 1;
    this.control({ type: "resize", protocolVersion: 1, id: this.#resizes, rows, cols });
    return this.#resizes;
  }

  signal(signal: string): void {
    this.control({ type: "signal", protocolVersion: 1, signal });
  }

  control(line: object): void {
    this.exec.control.write(`${JSON.stringify(line)}\n`);
  }

  async resized(id: number): Promise<void> {
    await this.exec.event((event) => event.type === "resized" && event.id === id);
  }

  /** Waits for this text on the screen and takes everything up to its end. */
  async sees(text: string): Promise<string> {
    return (await this.#output.through(Buffer.from(text))).toString("utf8");
  }

  /** Everything that is still to come on the screen, to its end. */
  rest(): Promise<Buffer> {
    return this.#output.rest();
  }

  bytes(count: number): Promise<Buffer> {
    return this.#output.take(count);
  }

  async line(): Promise<string> {
    return (await this.#output.line()).replace(/\r$/, "");
  }

  result(): Promise<ExecResult> {
    return this.exec.result();
  }
}

import { mkdtempSync, rmSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished, vi } from "vitest";
import { DialLineReader } from "../../src/wire/dial.ts";

/** The build that the sources of the wrapper think they are, outside of a bundle. */
const BUILD = "testbild";

export interface Dial {
  /** The parsed dial line. */
  request: Record<string, unknown>;
  socket: Socket;
  /** What came with the line. */
  rest: Buffer;
}

/** A broker that does what a test says, in the place where the wrapper looks for one. */
export class FakeBroker {
  readonly dials: Dial[] = [];
  readonly #server: Server;

  static async start(onDial: (dial: Dial) => void): Promise<FakeBroker> {
    const folder = mkdtempSync(join(tmpdir(), "psr-run-"));
    vi.stubGlobal("__PASEO_BUILD__", BUILD);
    vi.stubEnv("PASEO_SSH_RUNTIME_DIR", folder);
    const broker = new FakeBroker(onDial);
    await new Promise<void>((resolve) => broker.#server.listen(join(folder, `broker-${BUILD}.sock`), resolve));
    onTestFinished(() => {
      broker.#server.close();
      for (const { socket } of broker.dials) socket.destroy();
      vi.unstubAllGlobals();
      vi.unstubAllEnvs();
      rmSync(folder, { recursive: true, force: true });
    });
    return broker;
  }

  private constructor(onDial: (dial: Dial) => void) {
    this.#server = createServer({ allowHalfOpen: true }, (socket) => {
      socket.on("error", () => {});
      const reader = new DialLineReader();
      const onData = (chunk: Buffer) => {
        reader.push(chunk);
        const line = reader.next();
        if (line === undefined) return;
        socket.off("data", onData);
        socket.pause();
        const dial = { request: JSON.parse(line), socket, rest: reader.rest() };
        this.dials.push(dial);
        onDial(dial);
      };
      socket.on("data", onData);
    });
  }
}

/**
 * Joins a dialed wrapper to an agent as the broker does, over a link that can break: so many bytes pass in each
 * direction, what follows is lost, and both ends are gone.
 */
export class Link {
  readonly wrapper: Socket;
  readonly agent: Socket;
  #broken = false;

  constructor(
    { socket, rest }: Dial,
    agentPath: string,
    limits = { up: Number.POSITIVE_INFINITY, down: Number.POSITIVE_INFINITY },
  ) {
    this.wrapper = socket;
    this.agent = connect({ path: agentPath, allowHalfOpen: true });
    this.agent.on("error", () => {});
    socket.write('{"type":"connected"}\n');
    const upstream = this.#forward(this.agent, limits.up);
    const downstream = this.#forward(socket, limits.down);
    if (rest.length > 0) upstream(rest);
    socket.on("data", upstream);
    this.agent.on("data", downstream);
    socket.once("end", () => this.agent.end());
    this.agent.once("end", () => socket.end());
    socket.once("close", () => this.agent.destroy());
    this.agent.once("close", () => socket.destroy());
    socket.resume();
  }

  break(): void {
    if (this.#broken) return;
    this.#broken = true;
    this.wrapper.destroy();
    this.agent.destroy();
  }

  #forward(to: Socket, limit: number): (chunk: Buffer) => void {
    let left = limit;
    return (chunk) => {
      if (this.#broken) return;
      if (chunk.length < left) {
        left -= chunk.length;
        to.write(chunk);
        return;
      }
      // What is written here may still arrive before the end of the socket does, as on a real link.
      to.write(chunk.subarray(0, left), () => this.break());
      left = 0;
    };
  }
}

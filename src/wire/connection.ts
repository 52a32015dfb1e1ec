import type { Duplex } from "node:stream";
import { RuntimeError } from "./errors.ts";
import {
  encodeDataHeader,
  encodeJsonFrame,
  encodeMarkFrame,
  FrameDecoder,
  FrameType,
  type JsonFrameType,
  type MarkFrameType,
  PREAMBLE,
  type StreamId,
  violation,
} from "./frame.ts";
import { PREAMBLE_DEADLINE_MS } from "./limits.ts";
import { checkJsonFrame, type JsonFrame } from "./messages.ts";

/** Which frames each side may send. */
const SENT_BY = {
  client: new Set<FrameType>([
    FrameType.Request,
    FrameType.Supply,
    FrameType.Control,
    FrameType.EventAcknowledge,
    FrameType.Data,
    FrameType.Acknowledge,
    FrameType.End,
    FrameType.Refuse,
    FrameType.Fatal,
  ]),
  agent: new Set<FrameType>([
    FrameType.Response,
    FrameType.Progress,
    FrameType.Need,
    FrameType.Event,
    FrameType.ControlAcknowledge,
    FrameType.Data,
    FrameType.Acknowledge,
    FrameType.End,
    FrameType.Refuse,
    FrameType.Fatal,
  ]),
} as const;

export interface ConnectionHandler {
  onJson(frame: JsonFrame): void;
  onData(stream: StreamId, offset: number, chunk: Buffer): void;
  onMark(type: MarkFrameType, stream: StreamId, offset: number): void;
  /** The other side has half-closed; nothing more will arrive. */
  onEnd?(): void;
  /** Called once, when nothing can be sent or received any more. `error` is absent after an orderly end. */
  onClose(error: RuntimeError | undefined): void;
}

/**
 * One connection that speaks wire protocol v1 over any byte stream. A violation by the other side ends it: a Fatal
 * frame says why, the stream is destroyed and `onClose` gets the error; nothing of the offending input is kept.
 */
export class WireConnection {
  readonly #socket: Duplex;
  readonly #handler: ConnectionHandler;
  readonly #decoder: FrameDecoder;
  #closed = false;
  #preambleTimer: NodeJS.Timeout | undefined;

  /** @param role what this side is; it decides which frames may be sent and which are accepted */
  constructor(socket: Duplex, role: "client" | "agent", handler: ConnectionHandler) {
    this.#socket = socket;
    this.#handler = handler;
    const accepted = SENT_BY[role === "client" ? "agent" : "client"];
    const check = (type: FrameType) => {
      if (!accepted.has(type)) throw violation(`a ${FrameType[type]} frame came from the wrong side`);
    };
    this.#decoder = new FrameDecoder({
      json: (type, value) => {
        check(type);
        const frame = checkJsonFrame(type, value);
        if (frame.type === FrameType.Fatal) this.#close(RuntimeError.fromData(frame.value));
        else if (!this.#closed) handler.onJson(frame);
      },
      data: (stream, offset, chunk) => {
        if (!this.#closed) handler.onData(stream, offset, chunk);
      },
      mark: (type, stream, offset) => {
        if (!this.#closed) handler.onMark(type, stream, offset);
      },
    });
    socket.write(PREAMBLE);
  }

  /**
   * Begins to receive. Before that, frames can be sent already, while somebody else still reads from the stream.
   * @param early bytes that were read from the stream before
   */
  start(early?: Buffer): void {
    const socket = this.#socket;
    socket.on("data", (chunk: Buffer) => this.#receive(chunk));
    socket.on("end", () => {
      if (!this.#closed) this.#handler.onEnd?.();
    });
    socket.on("error", (error) => this.#close(lost(error.message)));
    socket.on("close", () => this.#close(undefined));
    if (early !== undefined && early.length > 0) this.#receive(early);
    if (socket.destroyed) this.#close(undefined);
    else socket.resume();
  }

  get closed(): boolean {
    return this.#closed;
  }

  sendJson(type: JsonFrameType, value: unknown): void {
    if (!this.#closed) this.#socket.write(encodeJsonFrame(type, value));
  }

  sendData(stream: StreamId, offset: number, chunk: Buffer): void {
    if (this.#closed) return;
    this.#socket.cork();
    this.#socket.write(encodeDataHeader(stream, offset, chunk.length));
    this.#socket.write(chunk);
    this.#socket.uncork();
  }

  sendMark(type: MarkFrameType, stream: StreamId, offset: number): void {
    if (!this.#closed) this.#socket.write(encodeMarkFrame(type, stream, offset));
  }

  /** Nothing more will be sent; what was sent still leaves. */
  end(): void {
    if (!this.#closed) this.#socket.end();
  }

  /** Ends the connection with the reason in a Fatal frame. */
  fail(error: RuntimeError): void {
    if (this.#closed) return;
    try {
      this.sendJson(FrameType.Fatal, error.toData());
    } finally {
      this.#close(error);
    }
  }

  /** Ends the connection at once and in silence. */
  destroy(): void {
    this.#close(undefined);
  }

  #receive(chunk: Buffer): void {
    if (this.#closed) return;
    try {
      this.#decoder.push(chunk);
    } catch (error) {
      this.fail(error instanceof RuntimeError ? error : RuntimeError.from(error));
      return;
    }
    this.#watchPreamble();
  }

  /** A peer that begins a preamble and never finishes it is not allowed to stay. One that sends nothing is a spare. */
  #watchPreamble(): void {
    if (this.#decoder.preambleComplete) {
      clearTimeout(this.#preambleTimer);
      this.#preambleTimer = undefined;
    } else if (this.#preambleTimer === undefined) {
      this.#preambleTimer = setTimeout(() => this.fail(violation("the preamble did not arrive in time")), PREAMBLE_DEADLINE_MS);
      this.#preambleTimer.unref();
    }
  }

  #close(error: RuntimeError | undefined): void {
    if (this.#closed) return;
    this.#closed = true;
    clearTimeout(this.#preambleTimer);
    // destroySoon lets a Fatal frame leave; a plain Duplex has only end + destroy.
    if (error === undefined || this.#socket.destroyed) this.#socket.destroy();
    else this.#socket.end(() => this.#socket.destroy());
    this.#handler.onClose(error);
  }
}

function lost(reason: string): RuntimeError {
  return new RuntimeError("connection-lost", `The connection to the build host was lost (${reason})`, "Try again");
}

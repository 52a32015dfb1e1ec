import type { Duplex } from "node:stream";
import { type ErrorData, RuntimeError } from "./errors.ts";
import {
  encodeDataHeader,
  encodeJsonFrame,
  encodeMarkFrame,
  type FrameChecks,
  FrameDecoder,
  type FramesOf,
  FrameType,
  type JsonFrameType,
  type MarkFrameType,
  PREAMBLE,
  type StreamId,
  violation,
  type WireSide,
} from "./frame.ts";
import { FAREWELL_DEADLINE_MS, PREAMBLE_DEADLINE_MS } from "./limits.ts";
import { LinkWindow, type SendWindow } from "./send-window.ts";

export interface ConnectionHandler<Frame> {
  /** The other side names the link that this connection goes over; it may only where this is defined. */
  onLink?(name: string): void;
  onJson(frame: Frame): void;
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
export class WireConnection<Checks extends FrameChecks = FrameChecks> {
  /** What the streams that are sent here may have on the way: with nobody else, as long as no other link is known. */
  window: SendWindow = new LinkWindow();
  readonly #socket: Duplex;
  readonly #handler: Pick<ConnectionHandler<never>, "onEnd" | "onClose">;
  readonly #decoder: FrameDecoder;
  #closed = false;
  /** A chunk is being decoded. */
  #receiving = false;
  #takeOver: ((socket: Duplex, rest: Buffer) => void) | undefined;
  /** Nothing more may be sent: a write behind the end would destroy the stream before its last bytes have left. */
  #ended = false;
  #paused = false;
  #preambleTimer: NodeJS.Timeout | undefined;

  /** @param side what this side accepts: AGENT_SIDE or CLIENT_SIDE */
  constructor(socket: Duplex, side: WireSide<Checks>, handler: ConnectionHandler<FramesOf<Checks>>) {
    this.#socket = socket;
    this.#handler = handler;
    this.#decoder = new FrameDecoder({
      ...(handler.onLink === undefined ? {} : { link: (name: string) => handler.onLink!(name) }),
      json: (type, value) => {
        const frame = checkJsonFrame(side, type, value);
        if (type === FrameType.Fatal) this.#close(RuntimeError.fromData(value as ErrorData));
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
    socket.on("data", this.#onData);
    socket.on("end", this.#onEnd);
    socket.on("error", (error) => this.#close(lost(error.message)));
    socket.on("close", () => this.#close(undefined));
    if (early !== undefined && early.length > 0) this.#receive(early);
    if (socket.destroyed) this.#close(undefined);
    else if (!this.#paused) socket.resume();
  }

  /** Takes no more from the stream until `resume`; frames of the chunk that has arrived are still delivered. */
  pause(): void {
    this.#paused = true;
    this.#socket.pause();
  }

  resume(): void {
    this.#paused = false;
    this.#socket.resume();
  }

  /**
   * Gives the stream away in the middle of a conversation: no further frame is taken from it, and none can be sent.
   * Its loss is still reported to `onClose`.
   * @param take gets the bytes that follow the last frame that was taken, once they are known
   */
  handOver(take: (socket: Duplex, rest: Buffer) => void): void {
    this.#socket.off("data", this.#onData);
    this.#socket.off("end", this.#onEnd);
    this.#socket.pause();
    this.#decoder.stop();
    if (this.#receiving) this.#takeOver = take;
    else take(this.#socket, Buffer.alloc(0));
  }

  get closed(): boolean {
    return this.#closed;
  }

  sendJson(type: JsonFrameType, value: unknown): void {
    if (!this.#ended) this.#socket.write(encodeJsonFrame(type, value));
  }

  sendData(stream: StreamId, offset: number, chunk: Buffer): void {
    if (this.#ended) return;
    this.#socket.cork();
    this.#socket.write(encodeDataHeader(stream, offset, chunk.length));
    this.#socket.write(chunk);
    this.#socket.uncork();
  }

  sendMark(type: MarkFrameType, stream: StreamId, offset: number): void {
    if (!this.#ended) this.#socket.write(encodeMarkFrame(type, stream, offset));
  }

  /** Nothing more will be sent; what was sent still leaves. */
  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#socket.end();
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

  readonly #onData = (chunk: Buffer) => this.#receive(chunk);
  readonly #onEnd = () => {
    if (!this.#closed) this.#handler.onEnd?.();
  };

  #receive(chunk: Buffer): void {
    if (this.#closed) return;
    try {
      this.#receiving = true;
      const taken = this.#decoder.push(chunk);
      this.#receiving = false;
      this.#takeOver?.(this.#socket, chunk.subarray(taken));
    } catch (error) {
      this.fail(error instanceof RuntimeError ? error : RuntimeError.from(error));
      return;
    }
    this.#watchPreamble();
  }

  /** A peer that begins a preamble and never finishes it is not allowed to stay. One that sends nothing is a spare. */
  #watchPreamble(): void {
    if (!this.#decoder.inPreamble) {
      clearTimeout(this.#preambleTimer);
      this.#preambleTimer = undefined;
    } else if (this.#preambleTimer === undefined) {
      this.#preambleTimer = setTimeout(
        () => this.fail(violation("the preamble did not arrive in time")),
        PREAMBLE_DEADLINE_MS,
      );
      this.#preambleTimer.unref();
    }
  }

  #close(error: RuntimeError | undefined): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#ended = true;
    clearTimeout(this.#preambleTimer);
    if (error === undefined || this.#socket.destroyed) this.#socket.destroy();
    else this.#destroySoon();
    this.#handler.onClose(error);
  }

  /**
   * Lets a Fatal frame leave, and takes what the other side sends until it has read that: a write to a socket that is
   * gone would make it lose what it has not read. A peer that does neither is given up.
   */
  #destroySoon(): void {
    const timer = setTimeout(() => this.#socket.destroy(), FAREWELL_DEADLINE_MS);
    timer.unref();
    this.#socket.once("close", () => clearTimeout(timer));
    this.#socket.end();
    this.#socket.resume();
  }
}

function lost(reason: string): RuntimeError {
  return new RuntimeError("connection-lost", `The connection to the build host was lost (${reason})`, "Try again");
}

/** @throws RuntimeError wire-violation when this side does not accept such a frame, or it is malformed */
function checkJsonFrame<Checks extends FrameChecks>(
  side: WireSide<Checks>,
  type: JsonFrameType,
  value: unknown,
): FramesOf<Checks> {
  const check = side.accepts[type];
  if (check === undefined) throw violation(`a ${FrameType[type]} frame came from the wrong side`);
  try {
    return { type, value: check(value) } as FramesOf<Checks>;
  } catch (error) {
    throw violation(`a ${FrameType[type]} frame is malformed at ${(error as Error).message}`);
  }
}

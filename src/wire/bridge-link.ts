import type { Readable, Writable } from "node:stream";
import {
  BRIDGE_MAGIC,
  BridgeDecoder,
  BridgeFrameType,
  type BridgeMark,
  encodeBridgeHeader,
  MAX_BRIDGE_DATA_BYTES,
} from "./bridge.ts";
import { BridgeStream } from "./bridge-stream.ts";
import { BridgeWriter } from "./bridge-writer.ts";
import { RuntimeError } from "./errors.ts";
import { violation } from "./frame.ts";
import { MAX_BRIDGED_BYTES, MAX_CONNECTION_BYTES } from "./limits.ts";

export interface BridgeLinkEvents {
  /** The other end has begun to speak. */
  onMagic?(): void;
  /** What stands before its first bytes; without it that is a violation. */
  onNoise?(bytes: Buffer): void;
  /** The other end wants a connection, which is accepted or refused later; without it that is a violation. */
  onOpen?(connection: number): void;
  /** Called once. Every stream is destroyed by then. */
  onClosed(reason: RuntimeError): void;
}

interface Opening {
  resolve(stream: BridgeStream): void;
  reject(error: RuntimeError): void;
}

/** One end of a bridge. Reads all the time: one connection that nobody reads must not hold up the others. */
export class BridgeLink {
  readonly #input: Readable;
  readonly #writer: BridgeWriter;
  readonly #decoder: BridgeDecoder;
  readonly #events: BridgeLinkEvents;
  readonly #streams = new Map<number, BridgeStream>();
  readonly #openings = new Map<number, Opening>();
  /** Connections that the other end has opened and that are not accepted yet. */
  readonly #asked = new Set<number>();
  /** Highest number of a connection so far; a higher one in a frame cannot come from an orderly peer. */
  #last = 0;
  #waitingBytes = 0;
  #closed: RuntimeError | undefined;

  constructor(input: Readable, output: Writable, events: BridgeLinkEvents) {
    this.#input = input;
    this.#events = events;
    this.#writer = new BridgeWriter(output);
    this.#decoder = new BridgeDecoder(
      {
        magic: () => events.onMagic?.(),
        mark: (type, connection) => this.#onMark(type, connection),
        data: (connection, chunk) => this.#onData(connection, chunk),
      },
      events.onNoise === undefined ? undefined : (bytes) => events.onNoise!(bytes),
    );
    input.on("data", (chunk: Buffer) => this.#receive(chunk));
    input.on("end", () => this.close(lost("its other end has ended")));
    for (const pipe of [input, output]) {
      pipe.on("error", (error: Error) => this.close(lostBy(error)));
      pipe.on("close", () => this.close(lost("its other end is gone")));
    }
  }

  /** Connections that are open or being opened. */
  get count(): number {
    return this.#streams.size + this.#openings.size + this.#asked.size;
  }

  /** Says this end's first bytes, before anything else is sent. */
  greet(): void {
    this.#writer.writeUnpaced(BRIDGE_MAGIC);
  }

  /**
   * Asks the other end for a connection.
   * @throws RuntimeError stream-refused when nobody listens at the socket, connection-lost
   */
  open(): Promise<BridgeStream> {
    if (this.#closed !== undefined) return Promise.reject(this.#closed);
    this.#last += 1;
    const connection = this.#last;
    return new Promise((resolve, reject) => {
      this.#openings.set(connection, { resolve, reject });
      this.#mark(BridgeFrameType.Open, connection);
    });
  }

  /** @param connection from `onOpen`. @returns a stream; undefined when the other end no longer wants it */
  accept(connection: number): BridgeStream | undefined {
    if (!this.#asked.delete(connection)) return undefined;
    this.#mark(BridgeFrameType.Opened, connection);
    return this.#newStream(connection);
  }

  refuse(connection: number): void {
    if (this.#asked.delete(connection)) this.#mark(BridgeFrameType.Close, connection);
  }

  close(reason: RuntimeError): void {
    if (this.#closed !== undefined) return;
    this.#closed = reason;
    for (const stream of this.#streams.values()) stream.destroy(reason);
    for (const opening of this.#openings.values()) opening.reject(reason);
    this.#streams.clear();
    this.#openings.clear();
    this.#asked.clear();
    this.#writer.close();
    // What still comes is of no use, but a pipe that nobody reads would never end.
    this.#input.resume();
    this.#events.onClosed(reason);
  }

  #receive(chunk: Buffer): void {
    if (this.#closed !== undefined) return;
    try {
      this.#decoder.push(chunk);
    } catch (error) {
      this.close(RuntimeError.from(error));
    }
  }

  #onMark(type: BridgeMark, connection: number): void {
    if (type === BridgeFrameType.Open) {
      this.#onOpen(connection);
      return;
    }
    this.#check(connection);
    const opening = this.#openings.get(connection);
    if (opening !== undefined) this.#onAnswer(type, connection, opening);
    else if (type === BridgeFrameType.Opened) throw violation("a bridged connection was opened twice");
    else if (type === BridgeFrameType.End) this.#streams.get(connection)?.receiveEnd();
    else {
      this.#asked.delete(connection);
      this.#streams.get(connection)?.receiveClose();
    }
  }

  #onOpen(connection: number): void {
    if (this.#events.onOpen === undefined || connection !== this.#last + 1) {
      throw violation(`a bridged connection ${connection} is opened out of turn`);
    }
    this.#last = connection;
    this.#asked.add(connection);
    this.#events.onOpen(connection);
  }

  #onAnswer(type: BridgeMark, connection: number, opening: Opening): void {
    this.#openings.delete(connection);
    if (type === BridgeFrameType.Opened) opening.resolve(this.#newStream(connection));
    else if (type === BridgeFrameType.Close) opening.reject(refused());
    else throw violation("a bridged connection ends before it is opened");
  }

  /** A connection that is closed here may still get what was on its way. */
  #onData(connection: number, chunk: Buffer): void {
    this.#check(connection);
    if (this.#openings.has(connection) || this.#asked.has(connection)) {
      throw violation("data came for a bridged connection that is not open yet");
    }
    this.#streams.get(connection)?.receive(chunk, tooMuch);
  }

  #check(connection: number): void {
    if (connection === 0 || connection > this.#last) throw violation(`there is no bridged connection ${connection}`);
  }

  #newStream(connection: number): BridgeStream {
    let waiting = 0;
    const stream = new BridgeStream({
      data: (bytes, sent) => this.#writer.write(dataFrames(connection, bytes), sent),
      end: () => this.#mark(BridgeFrameType.End, connection),
      gone: (finished) => {
        this.#streams.delete(connection);
        if (!finished) this.#mark(BridgeFrameType.Close, connection);
      },
      waits: (bytes) => {
        waiting += bytes;
        this.#waitingBytes += bytes;
        return waiting <= MAX_CONNECTION_BYTES && this.#waitingBytes <= MAX_BRIDGED_BYTES;
      },
    });
    this.#streams.set(connection, stream);
    return stream;
  }

  #mark(type: BridgeMark, connection: number): void {
    if (this.#closed !== undefined) return;
    const orderly = this.#writer.writeUnpaced(encodeBridgeHeader(type, connection, 0));
    if (!orderly) this.close(violation("the bridge's other end provokes more answers than it takes"));
  }
}

function dataFrames(connection: number, bytes: Buffer): Buffer[] {
  const pieces: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += MAX_BRIDGE_DATA_BYTES) {
    const part = bytes.subarray(at, at + MAX_BRIDGE_DATA_BYTES);
    pieces.push(encodeBridgeHeader(BridgeFrameType.Data, connection, part.length), part);
  }
  return pieces;
}

function lost(reason: string): RuntimeError {
  return new RuntimeError("connection-lost", `The bridge to the agent was lost (${reason})`, "Try again");
}

function lostBy(error: Error): RuntimeError {
  return error instanceof RuntimeError ? error : lost(error.message);
}

function refused(): RuntimeError {
  return new RuntimeError("stream-refused", "Nobody listens at the agent's socket on the build host", "Try again");
}

function tooMuch(): RuntimeError {
  return lost("one of its connections brings more than anybody may have on the way");
}

import type { WireConnection } from "./connection.ts";
import { FrameType, type StreamId, violation } from "./frame.ts";
import { ACKNOWLEDGE_STEP_BYTES, MAX_DATA_BYTES, MESSAGE_WINDOW, STREAM_WINDOW_BYTES } from "./limits.ts";

/**
 * Streams with absolute offsets that outlive their connection. Acknowledgement = credit = replay: the receiver
 * acknowledges what it has handed to the operating system; the sender keeps what is not acknowledged, at most one
 * window of it, and sends it again after a reconnect.
 */

/** The sending half of one stream. Nothing is dropped: when `full`, the owner pauses its producer. */
export class OutgoingStream {
  readonly #id: StreamId;
  #connection: WireConnection | undefined;
  #chunks: Buffer[] = [];
  /** Offset of the first byte that is kept, which is the first that is not acknowledged. */
  #base = 0;
  #end = 0;
  #finished = false;
  #refused = false;

  /** Called when the stream is no longer full. */
  onWritable: () => void = () => {};
  /** Called once when the other side wants no more of this stream. */
  onRefused: () => void = () => {};
  /** Called whenever the stream has become `settled`. */
  onSettled: () => void = () => {};

  constructor(id: StreamId) {
    this.#id = id;
  }

  get full(): boolean {
    return this.#end - this.#base >= STREAM_WINDOW_BYTES;
  }

  get finished(): boolean {
    return this.#finished;
  }

  get refused(): boolean {
    return this.#refused;
  }

  /** Finished, and every byte acknowledged. */
  get settled(): boolean {
    return this.#finished && (this.#refused || this.#base === this.#end);
  }

  /** Bytes that the other side has not acknowledged. */
  get unacknowledged(): number {
    return this.#end - this.#base;
  }

  write(bytes: Buffer): void {
    if (this.#refused || bytes.length === 0) return;
    for (let at = 0; at < bytes.length; at += MAX_DATA_BYTES) {
      const chunk = bytes.length <= MAX_DATA_BYTES ? bytes : bytes.subarray(at, at + MAX_DATA_BYTES);
      this.#chunks.push(chunk);
      this.#connection?.sendData(this.#id, this.#end, chunk);
      this.#end += chunk.length;
    }
  }

  /** No more bytes will be written. */
  finish(): void {
    if (this.#finished) return;
    this.#finished = true;
    this.#connection?.sendMark(FrameType.End, this.#id, this.#end);
    if (this.settled) this.onSettled();
  }

  /** @throws RuntimeError wire-violation when the other side acknowledges what was never sent. */
  acknowledge(offset: number): void {
    if (offset > this.#end) throw violation(`stream ${this.#id} is acknowledged up to ${offset} of ${this.#end} bytes`);
    if (this.#refused || offset <= this.#base) return;
    const wasFull = this.full;
    let drop = offset - this.#base;
    let whole = 0;
    while (whole < this.#chunks.length && this.#chunks[whole]!.length <= drop) {
      drop -= this.#chunks[whole]!.length;
      whole += 1;
    }
    this.#chunks.splice(0, whole);
    if (drop > 0) this.#chunks[0] = this.#chunks[0]!.subarray(drop);
    this.#base = offset;
    if (wasFull && !this.full) this.onWritable();
    if (this.settled) this.onSettled();
  }

  /** The other side wants no more of this stream: what is kept is dropped, and later writes go nowhere. */
  refuse(): void {
    if (this.#refused) return;
    const wasFull = this.full;
    this.#refused = true;
    this.#chunks = [];
    this.#base = this.#end;
    this.onRefused();
    if (wasFull) this.onWritable();
    if (this.settled) this.onSettled();
  }

  /**
   * Sends over this connection from now on, beginning with everything after `received`.
   * @param received offset up to which the other side has the stream
   * @throws RuntimeError wire-violation when that offset was never sent or is no longer kept
   */
  attach(connection: WireConnection, received: number): void {
    if (received < this.#base && !this.#refused) {
      throw violation(`stream ${this.#id} is wanted from ${received}, but bytes before ${this.#base} are gone`);
    }
    this.acknowledge(received);
    this.#connection = connection;
    let offset = this.#base;
    for (const chunk of this.#chunks) {
      connection.sendData(this.#id, offset, chunk);
      offset += chunk.length;
    }
    if (this.#finished) connection.sendMark(FrameType.End, this.#id, this.#end);
  }

  detach(): void {
    this.#connection = undefined;
  }
}

/** The receiving half of one stream. */
export class IncomingStream {
  readonly #id: StreamId;
  #connection: WireConnection | undefined;
  #received = 0;
  #consumed = 0;
  #acknowledged = 0;
  #endOffset: number | undefined;
  #refused = false;

  constructor(id: StreamId) {
    this.#id = id;
  }

  /** Offset up to which this stream has arrived. */
  get received(): number {
    return this.#received;
  }

  /** The sender has finished and everything has arrived. */
  get complete(): boolean {
    return this.#endOffset !== undefined && this.#received === this.#endOffset;
  }

  /** Everything that has arrived has been consumed, and nothing more will come. */
  get drained(): boolean {
    return this.complete && (this.#consumed === this.#received || this.#refused);
  }

  get refused(): boolean {
    return this.#refused;
  }

  /**
   * Takes what a data frame brought.
   * @returns the bytes that are new, or undefined when all of them are repeated or refused
   * @throws RuntimeError wire-violation on a gap, on data after the end, and on more than the window allows
   */
  accept(offset: number, bytes: Buffer): Buffer | undefined {
    const end = offset + bytes.length;
    if (offset > this.#received) throw violation(`stream ${this.#id} jumps from ${this.#received} to ${offset}`);
    if (end <= this.#received) return undefined;
    if (this.#endOffset !== undefined && end > this.#endOffset)
      throw violation(`stream ${this.#id} goes on after its end`);
    const fresh = offset === this.#received ? bytes : bytes.subarray(this.#received - offset);
    this.#received = end;
    if (this.#refused) return undefined;
    if (end - this.#acknowledged > STREAM_WINDOW_BYTES + MAX_DATA_BYTES) {
      throw violation(`stream ${this.#id} has more than a window of bytes in flight`);
    }
    return fresh;
  }

  /** @throws RuntimeError wire-violation when the end moves or lies before what has arrived. */
  end(offset: number): void {
    if (offset < this.#received || (this.#endOffset !== undefined && this.#endOffset !== offset)) {
      throw violation(`stream ${this.#id} ends at ${offset}, but ${this.#received} bytes have arrived`);
    }
    this.#endOffset = offset;
    this.consume(0);
  }

  /** Tells the sender that `count` more bytes are with the operating system, when it is worth a frame. */
  consume(count: number): void {
    this.#consumed += count;
    const step = this.complete && this.#consumed === this.#received ? 1 : ACKNOWLEDGE_STEP_BYTES;
    if (this.#consumed - this.#acknowledged >= step) this.#acknowledge();
  }

  #acknowledge(): void {
    if (this.#refused) return;
    this.#acknowledged = this.#consumed;
    this.#connection?.sendMark(FrameType.Acknowledge, this.#id, this.#acknowledged);
  }

  /** Tells the sender that nobody reads this stream any more; what still arrives is dropped. */
  refuse(): void {
    if (this.#refused) return;
    this.#refused = true;
    this.#connection?.sendMark(FrameType.Refuse, this.#id, this.#received);
  }

  /** Acknowledges and refuses over this connection from now on; a refusal is repeated, for it may have been lost. */
  attach(connection: WireConnection): void {
    this.#connection = connection;
    if (this.#refused) connection.sendMark(FrameType.Refuse, this.#id, this.#received);
  }

  detach(): void {
    this.#connection = undefined;
  }
}

/** Numbered messages (events one way, controls the other way), kept until acknowledged and delivered exactly once. */
export class OutgoingMessages<T> {
  readonly #type: FrameType.Event | FrameType.Control;
  #connection: WireConnection | undefined;
  #kept: { seq: number; body: T }[] = [];
  #lastSeq = 0;
  onAcknowledged: () => void = () => {};

  constructor(type: FrameType.Event | FrameType.Control) {
    this.#type = type;
  }

  get full(): boolean {
    return this.#kept.length >= MESSAGE_WINDOW;
  }

  get settled(): boolean {
    return this.#kept.length === 0;
  }

  push(body: T): void {
    this.#lastSeq += 1;
    const message = { seq: this.#lastSeq, body };
    this.#kept.push(message);
    this.#connection?.sendJson(this.#type, message);
  }

  /** @throws RuntimeError wire-violation when a message is acknowledged that was never sent. */
  acknowledge(seq: number): void {
    if (seq > this.#lastSeq) throw violation(`message ${seq} is acknowledged, but only ${this.#lastSeq} were sent`);
    this.#kept = this.#kept.filter((message) => message.seq > seq);
    this.onAcknowledged();
  }

  attach(connection: WireConnection, receivedSeq: number): void {
    this.acknowledge(receivedSeq);
    this.#connection = connection;
    for (const message of this.#kept) connection.sendJson(this.#type, message);
  }

  detach(): void {
    this.#connection = undefined;
  }
}

/** Accepts numbered messages once each. */
export class IncomingMessages {
  #lastSeq = 0;

  get lastSeq(): number {
    return this.#lastSeq;
  }

  /**
   * @returns false when the message has been seen before
   * @throws RuntimeError wire-violation on a gap
   */
  accept(seq: number): boolean {
    if (seq <= this.#lastSeq) return false;
    if (seq !== this.#lastSeq + 1) throw violation(`message ${seq} follows message ${this.#lastSeq}`);
    this.#lastSeq = seq;
    return true;
  }
}

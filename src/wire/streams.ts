import type { WireConnection } from "./connection.ts";
import { FrameType, type StreamId, violation } from "./frame.ts";
import { KeptBytes } from "./kept-bytes.ts";
import {
  ACKNOWLEDGE_DELAY_MS,
  ACKNOWLEDGE_STEP_BYTES,
  MAX_DATA_BYTES,
  MESSAGE_WINDOW,
  STREAM_WINDOW_BYTES,
} from "./limits.ts";
import type { WindowShare } from "./send-window.ts";

/**
 * Streams with absolute offsets that outlive their connection. Acknowledgement = credit = replay: the receiver
 * acknowledges what it has handed to the operating system; the sender keeps what is not acknowledged, has at most one
 * window of it on the way (less when the link is full, see send-window.ts), and sends it again after a reconnect.
 */

/** What a stream needs of a connection. */
export type FrameSink = Pick<WireConnection, "sendData" | "sendJson" | "sendMark" | "window">;

/** The sending half of one stream. Nothing is dropped: when `full`, the owner pauses its producer. */
export class OutgoingStream {
  readonly #id: StreamId;
  #connection: FrameSink | undefined;
  /** What is not acknowledged. */
  readonly #kept = new KeptBytes();
  /** Offset up to which the present connection has the stream. */
  #sent = 0;
  /** What the link lets this stream have on the way; absent while there is no link, and for a stream that was refused. */
  #share: WindowShare | undefined;
  #endSent = false;
  #finished = false;
  #refused = false;
  #settledTold = false;

  /** Called when the stream is no longer full. */
  onWritable: () => void = () => {};
  /** Called once when the other side wants no more of this stream. */
  onRefused: () => void = () => {};
  /** Called once, when the stream has become `settled`. */
  onSettled: () => void = () => {};

  constructor(id: StreamId) {
    this.#id = id;
  }

  get full(): boolean {
    return this.#kept.length >= STREAM_WINDOW_BYTES;
  }

  get finished(): boolean {
    return this.#finished;
  }

  get refused(): boolean {
    return this.#refused;
  }

  /** Finished, and every byte acknowledged or refused. */
  get settled(): boolean {
    return this.#finished && this.#kept.length === 0;
  }

  /** Bytes that the other side has not acknowledged. */
  get unacknowledged(): number {
    return this.#kept.length;
  }

  /** @param bytes of any length: what does not fit into the window waits; the caller must not change them afterwards */
  write(bytes: Buffer): void {
    if (this.#refused) return;
    this.#kept.append(bytes);
    this.#send();
  }

  /** No more bytes will be written. */
  finish(): void {
    if (this.#finished) return;
    this.#finished = true;
    this.#send();
    this.#tellSettled();
  }

  /** @throws RuntimeError wire-violation when the other side acknowledges what was never sent. */
  acknowledge(offset: number): void {
    if (this.#refused) return;
    if (offset > this.#sent)
      throw violation(`stream ${this.#id} is acknowledged up to ${offset}, but only ${this.#sent} bytes were sent`);
    if (offset <= this.#kept.start) return;
    const wasFull = this.full;
    this.#kept.dropBefore(offset);
    this.#share?.acknowledged(offset);
    this.#send();
    if (wasFull && !this.full) this.onWritable();
    this.#tellSettled();
  }

  /** The other side wants no more of this stream: what is kept is dropped, and later writes go nowhere. */
  refuse(): void {
    if (this.#refused) return;
    const wasFull = this.full;
    this.#refused = true;
    this.#leaveWindow();
    this.#kept.dropBefore(this.#kept.end);
    this.#sent = this.#kept.end;
    this.#send();
    this.onRefused();
    if (wasFull) this.onWritable();
    this.#tellSettled();
  }

  /**
   * Sends over this connection from now on, beginning with everything after `received`. That offset says where to go
   * on and gives no credit: what the other side has received it may not have passed on yet.
   * @param received offset up to which the other side has the stream
   * @throws RuntimeError wire-violation when that offset was never sent or is no longer kept
   */
  attach(connection: FrameSink, received: number): void {
    const { start, end } = this.#kept;
    if (received > end || (received < start && !this.#refused))
      throw violation(`stream ${this.#id} is wanted from ${received}, but only ${start} to ${end} can be sent`);
    this.#leaveWindow();
    this.#connection = connection;
    this.#sent = this.#refused ? end : received;
    this.#endSent = false;
    if (!this.#refused) this.#share = connection.window.join(this.#sent, (most) => this.#sendSome(most));
    this.#send();
  }

  detach(): void {
    this.#leaveWindow();
    this.#connection = undefined;
  }

  #leaveWindow(): void {
    this.#share?.leave();
    this.#share = undefined;
  }

  /** Asks for a turn when there is something to send and, behind the last byte, sends the end. */
  #send(): void {
    if (this.#sent < this.#kept.end) this.#share?.request();
    else this.#sendEnd();
  }

  /** @returns how many bytes were sent */
  #sendSome(most: number): number {
    const from = this.#sent;
    const until = Math.min(from + most, this.#kept.end, this.#kept.start + STREAM_WINDOW_BYTES);
    while (this.#sent < until) {
      const bytes = this.#kept.from(this.#sent).subarray(0, Math.min(until - this.#sent, MAX_DATA_BYTES));
      this.#connection!.sendData(this.#id, this.#sent, bytes);
      this.#sent += bytes.length;
    }
    this.#sendEnd();
    return this.#sent - from;
  }

  #sendEnd(): void {
    if (this.#connection === undefined || !this.#finished || this.#endSent || this.#sent < this.#kept.end) return;
    this.#endSent = true;
    this.#connection.sendMark(FrameType.End, this.#id, this.#kept.end);
  }

  #tellSettled(): void {
    if (!this.settled || this.#settledTold) return;
    this.#settledTold = true;
    this.onSettled();
  }
}

/** The receiving half of one stream. */
export class IncomingStream {
  readonly #id: StreamId;
  #connection: FrameSink | undefined;
  #received = 0;
  #consumed = 0;
  #acknowledged = 0;
  #endOffset: number | undefined;
  #refused = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(id: StreamId) {
    this.#id = id;
  }

  /** Offset up to which this stream has arrived. */
  get received(): number {
    return this.#received;
  }

  /** The sender has finished, and everything has arrived that it did not drop because of a refusal. */
  get complete(): boolean {
    return this.#endOffset !== undefined;
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
    if (!this.#refused && end - this.#acknowledged > STREAM_WINDOW_BYTES + MAX_DATA_BYTES)
      throw violation(`stream ${this.#id} has more than a window of bytes in flight`);
    const fresh = offset === this.#received ? bytes : bytes.subarray(this.#received - offset);
    this.#received = end;
    return this.#refused ? undefined : fresh;
  }

  /** @throws RuntimeError wire-violation when the end moves or is not where the bytes that have arrived end. */
  end(offset: number): void {
    const moved = this.#endOffset !== undefined && this.#endOffset !== offset;
    // A sender that was refused has dropped bytes, also some that were on the way when a link was lost.
    if (moved || offset < this.#received || (offset > this.#received && !this.#refused)) {
      throw violation(`stream ${this.#id} ends at ${offset}, but ${this.#received} bytes have arrived`);
    }
    this.#endOffset = offset;
    this.consume(0);
  }

  /** Tells the sender that `count` more bytes are with the operating system: at once when it is worth a frame. */
  consume(count: number): void {
    this.#consumed += count;
    const step = this.complete && this.#consumed === this.#received ? 1 : ACKNOWLEDGE_STEP_BYTES;
    const news = this.#consumed - this.#acknowledged;
    if (news >= step) this.#acknowledge();
    else if (news > 0) this.#timer ??= setTimeout(() => this.#acknowledge(), ACKNOWLEDGE_DELAY_MS).unref();
  }

  #acknowledge(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
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

  /**
   * Acknowledges and refuses over this connection from now on. What was said before is repeated, for it may have been
   * lost, and a sender whose window is full waits for nothing else.
   */
  attach(connection: FrameSink): void {
    this.#connection = connection;
    if (this.#refused) connection.sendMark(FrameType.Refuse, this.#id, this.#received);
    else if (this.#consumed > 0) this.#acknowledge();
  }

  detach(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#connection = undefined;
  }
}

/** Numbered messages (events one way, controls the other way), kept until acknowledged and delivered exactly once. */
export class OutgoingMessages<T> {
  readonly #type: FrameType.Event | FrameType.Control;
  #connection: FrameSink | undefined;
  /** What is not acknowledged, without a gap. */
  #kept: { seq: number; body: T }[] = [];
  #lastSeq = 0;
  /** Number of the last message that the present connection has. */
  #sentSeq = 0;
  onAcknowledged: () => void = () => {};

  constructor(type: FrameType.Event | FrameType.Control) {
    this.#type = type;
  }

  get unacknowledged(): number {
    return this.#kept.length;
  }

  get settled(): boolean {
    return this.#kept.length === 0;
  }

  push(body: T): void {
    this.#lastSeq += 1;
    this.#kept.push({ seq: this.#lastSeq, body });
    this.#send();
  }

  /** @throws RuntimeError wire-violation when a message is acknowledged that was never sent. */
  acknowledge(seq: number): void {
    if (seq > this.#sentSeq) throw violation(`message ${seq} is acknowledged, but only ${this.#sentSeq} were sent`);
    this.#drop(seq);
    this.#send();
    this.onAcknowledged();
  }

  /**
   * Sends over this connection from now on, beginning behind the last message that the other side has.
   * @throws RuntimeError wire-violation when that one was never sent
   */
  attach(connection: FrameSink, receivedSeq: number): void {
    if (receivedSeq > this.#lastSeq)
      throw violation(`messages are wanted after ${receivedSeq}, but there are only ${this.#lastSeq}`);
    this.#connection = connection;
    this.#sentSeq = receivedSeq;
    this.acknowledge(receivedSeq);
  }

  detach(): void {
    this.#connection = undefined;
  }

  #drop(seq: number): void {
    const first = this.#kept[0];
    if (first !== undefined && seq >= first.seq) this.#kept.splice(0, seq - first.seq + 1);
  }

  #send(): void {
    const first = this.#kept[0];
    if (first === undefined || this.#connection === undefined) return;
    const behind = Math.max(this.#sentSeq + 1, first.seq) - first.seq;
    for (const message of this.#kept.slice(behind, MESSAGE_WINDOW)) {
      this.#sentSeq = message.seq;
      this.#connection.sendJson(this.#type, message);
    }
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

import { FrameType, type JsonFrameType, type MarkFrameType, type StreamId } from "../../src/wire/frame.ts";
import { MAX_DATA_BYTES } from "../../src/wire/limits.ts";
import type { SendWindow } from "../../src/wire/send-window.ts";
import type { FrameSink, IncomingStream, OutgoingStream } from "../../src/wire/streams.ts";

/** So that frames are as long as they may be. */
const TURN_BYTES = MAX_DATA_BYTES;

/** What travels over a link of the tests. */
export type Sent =
  | { kind: "data"; offset: number; bytes: Buffer }
  | { kind: "mark"; type: MarkFrameType; offset: number }
  | { kind: "json"; type: JsonFrameType; value: unknown }
  /** What a request or its answer says: how far the receiver has the stream. */
  | { kind: "received"; offset: number };

/** One direction of a link in memory: keeps what was sent in order, until a test delivers or loses it. */
export class Direction implements FrameSink {
  readonly queue: Sent[] = [];
  /** However much is on the way, a stream may send. */
  readonly window: SendWindow = {
    join: (_offset, send) => ({
      request: () => {
        while (send(TURN_BYTES) === TURN_BYTES);
      },
      acknowledged() {},
      leave() {},
    }),
  };

  sendData(_stream: StreamId, offset: number, bytes: Buffer): void {
    this.queue.push({ kind: "data", offset, bytes });
  }

  sendMark(type: MarkFrameType, _stream: StreamId, offset: number): void {
    this.queue.push({ kind: "mark", type, offset });
  }

  sendJson(type: JsonFrameType, value: unknown): void {
    this.queue.push({ kind: "json", type, value });
  }
}

/** What the sending side does with a frame that comes back to it. */
export function toSender(stream: OutgoingStream, connection: FrameSink, frame: Sent): void {
  if (frame.kind === "received") stream.attach(connection, frame.offset);
  else if (frame.kind !== "mark") throw new Error(`a sender got ${frame.kind}`);
  else if (frame.type === FrameType.Acknowledge) stream.acknowledge(frame.offset);
  else if (frame.type === FrameType.Refuse) stream.refuse();
  else throw new Error(`a sender got ${FrameType[frame.type]}`);
}

/**
 * What the receiving side does with a frame.
 * @param limit bytes of a data frame that arrive before the link breaks
 * @returns the fresh bytes
 */
export function toReceiver(stream: IncomingStream, frame: Sent, limit = Number.POSITIVE_INFINITY): Buffer | undefined {
  if (frame.kind === "data") return stream.accept(frame.offset, frame.bytes.subarray(0, limit));
  if (frame.kind !== "mark" || frame.type !== FrameType.End) throw new Error(`a receiver got ${frame.kind}`);
  stream.end(frame.offset);
  return undefined;
}

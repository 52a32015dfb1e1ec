import type { Readable } from "node:stream";
import type { WireConnection } from "../wire/connection.ts";
import { RuntimeError } from "../wire/errors.ts";
import { FrameType, type MarkFrameType, StreamId, violation } from "../wire/frame.ts";
import type { WireNeed } from "../wire/from-agent.ts";
import type { WireSupply } from "../wire/from-client.ts";
import { OutgoingStream } from "../wire/streams.ts";

/** What answers a need: a message and the bytes that follow it. */
export interface Supplies {
  supply: Exclude<WireSupply, { what: "error" }>;
  stream: Readable;
}

export type Supplier<Need extends WireNeed> = (need: Need) => Promise<Supplies>;

/** Sends what the agent asked for, no faster than the agent takes it. */
export class Upload {
  readonly #connection: WireConnection;
  readonly #outgoing = new OutgoingStream(StreamId.Upload);
  #source: Readable | undefined;
  /** Nobody takes anything any more. */
  #closed = false;

  constructor(connection: WireConnection) {
    this.#connection = connection;
    this.#outgoing.onWritable = () => this.#source?.resume();
    this.#outgoing.onRefused = () => this.close();
  }

  /**
   * @throws RuntimeError what went wrong on this side; the agent is told as well, so that it undoes what it began
   */
  async run(supplies: Promise<Supplies>): Promise<void> {
    try {
      const { supply, stream } = await supplies;
      this.#connection.sendJson(FrameType.Supply, supply);
      this.#outgoing.attach(this.#connection, 0);
      await this.#send(stream);
    } catch (error) {
      this.#connection.sendJson(FrameType.Supply, { what: "error", error: RuntimeError.from(error).toData() });
      throw error;
    }
  }

  onMark(type: MarkFrameType, offset: number): void {
    if (type === FrameType.Acknowledge) this.#outgoing.acknowledge(offset);
    else if (type === FrameType.Refuse) this.#outgoing.refuse();
    else throw violation("the agent ended a stream that it receives");
  }

  /** Ends the source, or the one that is still being prepared. */
  close(): void {
    this.#closed = true;
    this.#source?.destroy();
  }

  #send(source: Readable): Promise<void> {
    this.#source = source;
    return new Promise((resolve, reject) => {
      source.on("data", (chunk: Buffer) => {
        this.#outgoing.write(chunk);
        if (this.#outgoing.full) source.pause();
      });
      source.once("error", reject);
      source.once("end", () => this.#outgoing.finish());
      source.once("close", () => resolve());
      if (this.#closed) source.destroy();
    });
  }
}

import { PassThrough, type Readable } from "node:stream";
import type { WireConnection } from "../src/wire/connection.ts";
import { RuntimeError } from "../src/wire/errors.ts";
import { FrameType, type MarkFrameType, StreamId, violation } from "../src/wire/frame.ts";
import type { WireNeed } from "../src/wire/from-agent.ts";
import type { WireSupply } from "../src/wire/from-client.ts";
import { IncomingStream } from "../src/wire/streams.ts";

/** What the agent asks a client for in the middle of an operation: a Need, answered by a Supply and a stream of bytes. */
export class Uploads {
  readonly #connection: WireConnection;
  #incoming: IncomingStream | undefined;
  #sink: PassThrough | undefined;
  #awaiting: { resolve(supply: WireSupply): void; reject(error: RuntimeError): void } | undefined;
  #lost: RuntimeError | undefined;

  constructor(connection: WireConnection) {
    this.#connection = connection;
  }

  /**
   * @throws RuntimeError what the client says went wrong on its side, or connection-lost
   */
  async request(need: WireNeed): Promise<{ supply: WireSupply; stream: Readable }> {
    if (this.#lost) throw this.#lost;
    const incoming = new IncomingStream(StreamId.Upload);
    incoming.attach(this.#connection);
    this.#incoming = incoming;
    const sink = new PassThrough();
    // It may fail before somebody reads it.
    sink.on("error", () => {});
    // Whoever gives up reading makes the client stop.
    sink.once("close", () => {
      if (!incoming.complete) incoming.refuse();
    });
    this.#sink = sink;
    const supply = await new Promise<WireSupply>((resolve, reject) => {
      this.#awaiting = { resolve, reject };
      this.#connection.sendJson(FrameType.Need, need);
    });
    if (supply.what === "error") throw RuntimeError.fromData(supply.error);
    if (supply.what !== need.what) throw violation(`a supply of ${supply.what} answers a need of ${need.what}`);
    return { supply, stream: sink };
  }

  onSupply(supply: WireSupply): void {
    if (this.#awaiting !== undefined) {
      this.#awaiting.resolve(supply);
      this.#awaiting = undefined;
    } else if (this.#sink !== undefined && supply.what === "error") {
      // Something went wrong over there in the middle of the bytes.
      this.#sink.destroy(RuntimeError.fromData(supply.error));
    } else {
      throw violation("a supply came that nobody asked for");
    }
  }

  onData(offset: number, chunk: Buffer): void {
    const incoming = this.#incoming;
    if (incoming === undefined) throw violation("an upload came that nobody asked for");
    const fresh = incoming.accept(offset, chunk);
    if (fresh !== undefined) this.#sink!.write(fresh, () => incoming.consume(fresh.length));
  }

  onMark(type: MarkFrameType, offset: number): void {
    if (type !== FrameType.End || this.#incoming === undefined) throw violation("an upload stream takes no such frame");
    this.#incoming.end(offset);
    this.#sink!.end();
  }

  /** The client is gone. */
  close(error: RuntimeError): void {
    this.#lost = error;
    this.#awaiting?.reject(error);
    this.#awaiting = undefined;
    if (this.#sink !== undefined && !this.#sink.writableEnded) this.#sink.destroy(error);
  }
}

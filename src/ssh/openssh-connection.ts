import type { Socket } from "node:net";
import { ProxyChannel, WINDOW_BYTES } from "./openssh-channel.ts";
import { byte, concat, FrameReader, frame, Reader, string, uint32 } from "./openssh-wire.ts";

/** RFC 4254, 9; in proxy mode ssh passes on nothing else. */
const Message = {
  ChannelOpen: 90,
  ChannelOpenConfirmation: 91,
  ChannelOpenFailure: 92,
  WindowAdjust: 93,
  Data: 94,
  ExtendedData: 95,
  Eof: 96,
  Close: 97,
  Request: 98,
  Success: 99,
  Failure: 100,
} as const;

/** The largest piece of data in one message that we take; RFC 4253, 6.1 has every implementation handle it. */
const MAX_PIECE_BYTES = 32 * 1024;

/** The server does not open a channel. */
export class OpenFailure extends Error {
  /** @param reason RFC 4254, 5.1 */
  constructor(
    readonly reason: number,
    description: string,
  ) {
    super(description);
  }
}

interface Opening {
  channel: ProxyChannel;
  resolve: (channel: ProxyChannel) => void;
  reject: (error: Error) => void;
}

/**
 * SSH's connection protocol (RFC 4254) over the control socket of an `ssh` in proxy mode, which puts each message on its
 * connection. Only the client's side: what a server opens is refused.
 */
export class ProxyConnection {
  readonly #socket: Socket;
  readonly #channels = new Map<number, ProxyChannel>();
  readonly #openings = new Map<number, Opening>();
  readonly #waitingForDrain = new Set<ProxyChannel>();
  readonly #onClosed: (problem: string | undefined) => void;
  readonly #frames = new FrameReader();
  #nextId = 0;
  #closed = false;
  #problem: string | undefined;

  /** @param onClosed called once; with what is wrong when the other side broke the protocol */
  constructor(socket: Socket, onClosed: (problem: string | undefined) => void) {
    this.#socket = socket;
    this.#onClosed = onClosed;
    socket.on("data", (chunk: Buffer) => this.#receive(chunk));
    socket.on("drain", () => this.#drained());
    socket.on("error", () => {});
    socket.on("close", () => this.#close());
    socket.resume();
  }

  /**
   * @param details what follows the common fields of the message
   * @throws OpenFailure, Error when the connection is closed
   */
  open(type: string, details: Buffer): Promise<ProxyChannel> {
    return new Promise((resolve, reject) => {
      if (this.#closed) {
        reject(new Error("the connection is closed"));
        return;
      }
      const id = this.#nextId;
      this.#nextId = (this.#nextId + 1) % 2 ** 32;
      const channel = new ProxyChannel({
        data: (piece) => this.#send(Message.Data, channel, string(piece)),
        credit: (bytes) => void this.#send(Message.WindowAdjust, channel, uint32(bytes)),
        eof: () => void this.#send(Message.Eof, channel),
        close: () => void this.#send(Message.Close, channel),
        request: (name, wantsReply, content) =>
          void this.#send(Message.Request, channel, concat([string(name), byte(wantsReply ? 1 : 0), content])),
        wait: () => void this.#waitingForDrain.add(channel),
        forget: () => {
          this.#channels.delete(id);
          this.#waitingForDrain.delete(channel);
        },
      });
      this.#openings.set(id, { channel, resolve, reject });
      this.#write(
        concat([
          byte(Message.ChannelOpen),
          string(type),
          uint32(id),
          uint32(WINDOW_BYTES),
          uint32(MAX_PIECE_BYTES),
          details,
        ]),
      );
    });
  }

  destroy(): void {
    this.#socket.destroy();
    this.#close();
  }

  /** @returns false when the line is full and the next piece should wait */
  #send(type: number, channel: ProxyChannel, content: Buffer = Buffer.alloc(0)): boolean {
    return this.#write(concat([byte(type), uint32(channel.remoteId), content]));
  }

  #write(message: Buffer): boolean {
    if (this.#closed) return true;
    return this.#socket.write(frame(message));
  }

  /** Each channel that waits gets its turn before one gets a second one: a Set keeps their order. */
  #drained(): void {
    for (const channel of [...this.#waitingForDrain]) {
      if (this.#socket.writableNeedDrain) return;
      this.#waitingForDrain.delete(channel);
      channel.onDrain();
    }
  }

  #receive(chunk: Buffer): void {
    try {
      this.#frames.push(chunk);
      for (let message = this.#frames.next(); message !== undefined; message = this.#frames.next()) {
        this.#handle(message);
        if (this.#closed) return;
      }
    } catch (error) {
      this.#problem = error instanceof Error ? error.message : String(error);
      this.destroy();
    }
  }

  #handle(message: Buffer): void {
    const reader = new Reader(message);
    const type = reader.byte();
    if (type === Message.ChannelOpen) this.#refuse(reader);
    if (type < Message.ChannelOpenConfirmation || type > Message.Failure) return;
    const id = reader.uint32();
    if (type === Message.ChannelOpenConfirmation || type === Message.ChannelOpenFailure) {
      this.#opened(id, type === Message.ChannelOpenConfirmation, reader);
      return;
    }
    const channel = this.#channels.get(id);
    if (channel !== undefined) this.#deliver(channel, type, reader);
  }

  #opened(id: number, succeeded: boolean, reader: Reader): void {
    const opening = this.#openings.get(id);
    if (opening === undefined) throw new Error("an answer that nobody waits for");
    this.#openings.delete(id);
    if (succeeded) {
      this.#channels.set(id, opening.channel);
      opening.channel.onConfirmation(reader.uint32(), reader.uint32(), reader.uint32());
      opening.resolve(opening.channel);
    } else {
      opening.reject(new OpenFailure(reader.uint32(), reader.string().toString("utf8")));
    }
  }

  #deliver(channel: ProxyChannel, type: number, reader: Reader): void {
    switch (type) {
      case Message.WindowAdjust:
        channel.onCredit(reader.uint32());
        break;
      case Message.Data:
        channel.onData("stdout", reader.string());
        break;
      case Message.ExtendedData:
        // RFC 4254, 5.2 defines no other kind than stderr.
        reader.uint32();
        channel.onData("stderr", reader.string());
        break;
      case Message.Eof:
        channel.onEof();
        break;
      case Message.Close:
        channel.onClose();
        break;
      case Message.Request:
        this.#requested(channel, reader);
        break;
      default:
        channel.onAnswer(type === Message.Success);
    }
  }

  #requested(channel: ProxyChannel, reader: Reader): void {
    const name = reader.string().toString("latin1");
    const wantsReply = reader.byte() !== 0;
    if (name === "exit-status") channel.emit("exit", reader.uint32());
    else if (name === "exit-signal") channel.emit("exit", null, `SIG${reader.string().toString("latin1")}`);
    else if (wantsReply) this.#send(Message.Failure, channel);
  }

  #refuse(reader: Reader): void {
    reader.string();
    const sender = reader.uint32();
    const administrativelyProhibited = 1;
    this.#write(
      concat([
        byte(Message.ChannelOpenFailure),
        uint32(sender),
        uint32(administrativelyProhibited),
        string(""),
        string(""),
      ]),
    );
  }

  #close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#onClosed(this.#problem);
    for (const { reject } of this.#openings.values()) reject(new Error("the connection is closed"));
    this.#openings.clear();
    this.#channels.clear();
    this.#waitingForDrain.clear();
  }
}

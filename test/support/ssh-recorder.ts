import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

/** RFC 4253, 12. */
export const DISCONNECT = 1;
export const KEXINIT = 20;
export const NEWKEYS = 21;
/** RFC 5656, 7.1; the same number as SSH_MSG_KEXDH_INIT. */
export const KEX_ECDH_INIT = 30;

/** Told when a connection begins, and when its first encrypted bytes arrive. */
interface Listeners {
  onConnection?: () => void;
  onEncrypted?: () => void;
}

/**
 * A TCP proxy in front of a real SSH server that notes what a client sends: the number of each message up to the one
 * after which everything is encrypted, and whether anything came then. RFC 4253 lets a client ask for a service, and so
 * send anything about a login, only behind that.
 */
export class SshRecorder {
  /** One list per connection, in the order in which they began. */
  readonly connections: (number | "encrypted")[][] = [];
  /** From which ports the server sees these connections, which is how its log names them. */
  readonly sourcePorts: number[] = [];
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  static async start(target: { host: string; port: number }, told: Listeners = {}): Promise<SshRecorder> {
    const recorder = new SshRecorder(target, told);
    recorder.#server.listen(0, "127.0.0.1");
    await once(recorder.#server, "listening");
    return recorder;
  }

  private constructor(target: { host: string; port: number }, { onConnection, onEncrypted }: Listeners) {
    this.#server = createServer({ noDelay: true }, (client) => {
      const messages: (number | "encrypted")[] = [];
      this.connections.push(messages);
      onConnection?.();
      const reader = new MessageReader(messages, onEncrypted);
      const server = connect({ ...target, noDelay: true });
      client.on("data", (chunk) => reader.push(chunk));
      server.once("connect", () => this.sourcePorts.push(server.localPort!));
      client.pipe(server);
      server.pipe(client);
      for (const [socket, other] of [
        [client, server],
        [server, client],
      ] as const) {
        this.#sockets.add(socket);
        socket.on("error", () => {});
        socket.on("close", () => {
          this.#sockets.delete(socket);
          other.destroy();
        });
      }
    });
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Resolves when everything that its connections have sent is noted: when they are gone. */
  async quiet(): Promise<void> {
    // A reset is an end as well, so `once` of node:events will not do.
    await Promise.all([...this.#sockets].map((socket) => new Promise((resolve) => socket.once("close", resolve))));
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, "close");
  }
}

/** RFC 4253, 4.2 and 6: a line, then packets. */
class MessageReader {
  readonly #messages: (number | "encrypted")[];
  readonly #onEncrypted: (() => void) | undefined;
  #buffered: Buffer = Buffer.alloc(0);
  #sawVersion = false;

  constructor(messages: (number | "encrypted")[], onEncrypted: (() => void) | undefined) {
    this.#messages = messages;
    this.#onEncrypted = onEncrypted;
  }

  push(chunk: Buffer): void {
    if (this.#messages.at(-1) === "encrypted") return;
    this.#buffered = Buffer.concat([this.#buffered, chunk]);
    if (!this.#sawVersion) {
      const end = this.#buffered.indexOf("\n");
      if (end < 0) return;
      if (!this.#buffered.toString("latin1", 0, end).startsWith("SSH-2.0-")) throw new Error("Not an SSH client");
      this.#sawVersion = true;
      this.#buffered = this.#buffered.subarray(end + 1);
    }
    while (this.#messages.at(-1) !== NEWKEYS && this.#buffered.length >= 6) {
      const length = 4 + this.#buffered.readUInt32BE(0);
      if (this.#buffered.length < length) return;
      this.#messages.push(this.#buffered[5]!);
      this.#buffered = this.#buffered.subarray(length);
    }
    if (this.#messages.at(-1) === NEWKEYS && this.#buffered.length > 0) {
      this.#messages.push("encrypted");
      this.#onEncrypted?.();
    }
  }
}

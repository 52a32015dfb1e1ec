import type { Duplex } from "node:stream";
import type { Client, ClientChannel, ExecOptions } from "ssh2";
import type { RuntimeError } from "../wire/errors.ts";
import type { Carrier, CommandChannel } from "./carrier.ts";
import { channelTimeout, impossibleSocketPath, sessionRefused, streamRefused } from "./channel-errors.ts";
import { ChannelStream } from "./channel-stream.ts";
import { commandChannel } from "./command-channel.ts";
import { lostError } from "./network-errors.ts";
import type { SshTarget } from "./target.ts";
import { openFailure } from "./tcp-stream-errors.ts";
import type { Transport } from "./transport.ts";

/** ssh2's reqAgentFwd, in lib/client.js. */
const FORWARDING_REFUSED = "Unable to request agent forwarding";

/**
 * A connection of ssh2. Channel windows are ssh2's: 2 MiB to receive, which its API cannot change; so one stream
 * receives at most 2 MiB per round trip.
 */
export class Ssh2Carrier implements Carrier {
  readonly kind = "ssh2";
  readonly closed: Promise<RuntimeError | undefined>;
  readonly #client: Client;
  readonly #transport: Transport;
  readonly #target: SshTarget;
  readonly #streams = new Set<ChannelStream>();
  readonly #liveness: NodeJS.Timeout;
  #resolveClosed!: (reason: RuntimeError | undefined) => void;
  #end: { reason: RuntimeError | undefined } | undefined;
  #forwardingRefused = false;
  #heard = false;
  #silentIntervals = 0;

  /** @param hostKeyRefusal why a later key exchange was refused, if it was */
  constructor(client: Client, transport: Transport, target: SshTarget, hostKeyRefusal: () => RuntimeError | undefined) {
    this.#client = client;
    this.#transport = transport;
    this.#target = target;
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve;
    });
    client.on("error", (error) => this.#finish(hostKeyRefusal() ?? lostError(target, error.message)));
    client.on("close", () => this.#finish(lostError(target, "the server closed the connection")));
    transport.stream.on("data", () => {
      this.#heard = true;
    });
    this.#liveness = setInterval(() => this.#checkLiveness(), target.keepaliveIntervalMs);
    this.#liveness.unref();
  }

  openStream(socketPath: string): Promise<Duplex> {
    const impossible = impossibleSocketPath(socketPath);
    if (impossible !== undefined) return Promise.reject(impossible);
    return this.#open(
      (callback) => this.#client.openssh_forwardOutStreamLocal(socketPath, callback),
      (channel) => this.#adopt(new ChannelStream(channel, "ours")),
      (reason) => streamRefused(this.#target, socketPath, reason),
    );
  }

  /**
   * Opens a byte stream to a TCP port as this host reaches it (RFC 4254, 7.2, direct-tcpip), for a target behind it.
   *
   * @throws RuntimeError forwarding-refused, connection-refused, host-unknown, connection-failed, connection-timeout,
   * connection-lost
   */
  openTcp(host: string, port: number): Promise<Duplex> {
    return this.#open(
      // Servers only log where a stream comes from; OpenSSH's `ssh -W` says this.
      (callback) => this.#client.forwardOut("127.0.0.1", 65_535, host, port, callback),
      (channel) => this.#adopt(new ChannelStream(channel, "ours")),
      (reason, text) => openFailure(this.#target, { host, port }, reason, text),
    );
  }

  async run(command: string, options: { forwardAgent?: boolean } = {}): Promise<CommandChannel> {
    const forwardAgent = options.forwardAgent === true && !this.#forwardingRefused;
    try {
      return await this.#run(command, forwardAgent);
    } catch (error) {
      if (!forwardAgent || !this.#forwardingRefused) throw error;
    }
    // As ssh does: the command runs all the same, without an agent.
    return await this.#run(command, false);
  }

  #run(command: string, agentForward: boolean): Promise<CommandChannel> {
    return this.#open(
      (callback) =>
        // Not in its types.
        this.#client.exec(command, { agentForward } as ExecOptions, (error, channel) => {
          // ssh2 asks for the forwarding first, closes the channel when that is refused, and says so in words alone.
          if (error?.message === FORWARDING_REFUSED) this.#forwardingRefused = true;
          callback(error, channel);
        }),
      (channel) => commandChannel(channel, this.#adopt(new ChannelStream(channel, "server"))),
      (reason) => sessionRefused(this.#target, reason),
    );
  }

  close(): void {
    if (this.#end !== undefined) return;
    this.#client.end();
    this.#finish(undefined);
  }

  /**
   * The deadline is ours and covers the opening itself: over a half-open link no answer ever comes.
   *
   * @param refused makes the error for the server's reason number, undefined when it gave none, and its words
   */
  #open<Result>(
    request: (callback: (error: Error | undefined, channel: ClientChannel) => void) => void,
    accept: (channel: ClientChannel) => Result,
    refused: (reason: number | undefined, text: string) => RuntimeError,
  ): Promise<Result> {
    return new Promise((resolve, reject) => {
      let expired = false;
      const deadline = setTimeout(() => {
        expired = true;
        reject(channelTimeout(this.#target));
      }, this.#target.connectTimeoutMs);
      const settle = (error: (Error & { reason?: unknown }) | undefined, channel: ClientChannel) => {
        clearTimeout(deadline);
        if (!error && expired) discard(channel);
        else if (!error) resolve(accept(channel));
        else if (this.#end !== undefined || !this.#transport.stream.readable) reject(this.#lost());
        else reject(refused(typeof error.reason === "number" ? error.reason : undefined, error.message));
      };
      if (this.#end !== undefined) {
        clearTimeout(deadline);
        reject(this.#lost());
        return;
      }
      try {
        request(settle);
      } catch {
        // ssh2 throws "Not connected" when the socket has ended and its "close" is still to come.
        clearTimeout(deadline);
        reject(this.#lost());
      }
    });
  }

  #adopt(stream: ChannelStream): ChannelStream {
    if (this.#end !== undefined) {
      stream.destroy(this.#lost());
      return stream;
    }
    this.#streams.add(stream);
    stream.once("close", () => this.#streams.delete(stream));
    return stream;
  }

  /**
   * The link counts as dead after `keepaliveCountMax` keepalive intervals without a single byte from the server: with
   * three of 5 s, at most 20 s after the last byte. ssh2's own counting is not used: it takes only an answer to a keepalive
   * for life, and on a slow link with a bulk transfer the answer queues behind megabytes that do arrive.
   */
  #checkLiveness(): void {
    this.#silentIntervals = this.#heard ? 0 : this.#silentIntervals + 1;
    this.#heard = false;
    if (this.#silentIntervals >= this.#target.keepaliveCountMax) {
      this.#finish(
        lostError(this.#target, `no answer for ${this.#silentIntervals * this.#target.keepaliveIntervalMs} ms`),
      );
    }
  }

  #finish(reason: RuntimeError | undefined): void {
    if (this.#end !== undefined) return;
    this.#end = { reason };
    clearInterval(this.#liveness);
    for (const stream of this.#streams) stream.destroy(this.#lost());
    // After `close` the goodbye still leaves; a lost link takes nothing any more.
    if (reason === undefined) this.#transport.close();
    else this.#transport.abort();
    this.#resolveClosed(reason);
  }

  #lost(): RuntimeError {
    return (
      this.#end?.reason ??
      lostError(this.#target, this.#end === undefined ? "the server closed the connection" : "it was closed")
    );
  }
}

/** A channel that opens after its deadline has nobody to close it. */
function discard(channel: ClientChannel): void {
  channel.on("error", () => {});
  channel.resume();
  channel.stderr.resume();
  channel.destroy();
}

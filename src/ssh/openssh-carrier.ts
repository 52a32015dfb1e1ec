import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { oneLine, type RuntimeError } from "../wire/errors.ts";
import type { Carrier, CommandChannel } from "./carrier.ts";
import { channelTimeout, impossibleSocketPath, sessionRefused, streamRefused } from "./channel-errors.ts";
import { commandChannel } from "./command-channel.ts";
import { lostError } from "./network-errors.ts";
import type { ProxyChannel } from "./openssh-channel.ts";
import { OpenFailure, ProxyConnection } from "./openssh-connection.ts";
import type { SshLog } from "./openssh-log.ts";
import type { SshProcess } from "./openssh-program.ts";
import { concat, string, uint32 } from "./openssh-wire.ts";
import type { SshTarget } from "./target.ts";

/** How long ssh may take to say why it ended, and to say goodbye to the server. Milliseconds. */
const FAREWELL_MS = 1000;

/**
 * A connection that the `ssh` program has made and keeps. The channels on it are ours; ssh encrypts them, watches the
 * link (ServerAliveInterval) and ends when we do.
 */
export class OpensshCarrier implements Carrier {
  readonly kind = "openssh";
  readonly closed: Promise<RuntimeError | undefined>;
  readonly #process: SshProcess;
  readonly #log: SshLog;
  readonly #target: SshTarget;
  readonly #connection: ProxyConnection;
  readonly #streams = new Set<ProxyChannel>();
  #resolveClosed!: (reason: RuntimeError | undefined) => void;
  #closing = false;
  #end: { reason: RuntimeError | undefined } | undefined;

  /** @param line ssh's connection protocol */
  constructor(process: SshProcess, line: Socket, log: SshLog, target: SshTarget) {
    this.#process = process;
    this.#log = log;
    this.#target = target;
    this.closed = new Promise((resolve) => {
      this.#resolveClosed = resolve;
    });
    this.#connection = new ProxyConnection(line, (problem) => void this.#onLineClosed(problem));
  }

  openStream(socketPath: string): Promise<Duplex> {
    const impossible = impossibleSocketPath(socketPath);
    if (impossible !== undefined) return Promise.reject(impossible);
    return this.#withDeadline(
      async () => {
        // OpenSSH's PROTOCOL, 2.4: the path, and two fields that are not used.
        const details = concat([string(socketPath), string(""), uint32(0)]);
        return await this.#open("direct-streamlocal@openssh.com", details, (reason) =>
          streamRefused(this.#target, socketPath, reason),
        );
      },
      (stream) => stream.destroy(),
    );
  }

  run(command: string, { forwardAgent = false } = {}): Promise<CommandChannel> {
    return this.#withDeadline(
      async () => {
        const channel = await this.#open("session", Buffer.alloc(0), (reason) => sessionRefused(this.#target, reason));
        channel.keepOpenForExit();
        if (forwardAgent) channel.announce("auth-agent-req@openssh.com");
        if (!(await channel.request("exec", string(command)))) {
          channel.destroy();
          throw this.#end === undefined && !this.#closing ? sessionRefused(this.#target, undefined) : this.#lost();
        }
        return commandChannel(channel, channel);
      },
      (command) => command.close(),
    );
  }

  close(): void {
    if (this.#closing) return;
    this.#closing = true;
    this.#connection.destroy();
    this.#finish(undefined);
    this.#process.release();
    const impatience = setTimeout(() => this.#process.kill(), FAREWELL_MS);
    void this.#process.ended.then(() => clearTimeout(impatience));
  }

  async #open(
    type: string,
    details: Buffer,
    refused: (reason: number | undefined) => RuntimeError,
  ): Promise<ProxyChannel> {
    let channel: ProxyChannel;
    try {
      channel = await this.#connection.open(type, details);
    } catch (error) {
      if (error instanceof OpenFailure) throw refused(error.reason);
      await this.closed;
      throw this.#lost();
    }
    if (this.#end !== undefined) {
      channel.destroy(this.#lost());
      return channel;
    }
    this.#streams.add(channel);
    channel.once("close", () => this.#streams.delete(channel));
    return channel;
  }

  /** Over a half-open link no answer ever comes. @param discard for what comes about too late */
  #withDeadline<Result>(attempt: () => Promise<Result>, discard: (late: Result) => void): Promise<Result> {
    return new Promise((resolve, reject) => {
      let expired = false;
      const deadline = setTimeout(() => {
        expired = true;
        reject(channelTimeout(this.#target));
      }, this.#target.connectTimeoutMs);
      attempt().then(
        (result) => {
          clearTimeout(deadline);
          if (expired) discard(result);
          else resolve(result);
        },
        (error) => {
          clearTimeout(deadline);
          reject(error);
        },
      );
    });
  }

  /** ssh says why at the same time as it lets go of the line. */
  async #onLineClosed(problem: string | undefined): Promise<void> {
    if (this.#closing) return;
    this.#closing = true;
    if (problem !== undefined) {
      this.#finish(lostError(this.#target, `ssh sent something unexpected: ${oneLine(problem)}`));
      this.#process.kill();
      return;
    }
    const impatience = setTimeout(() => this.#process.kill(), FAREWELL_MS);
    await this.#process.ended;
    clearTimeout(impatience);
    this.#finish(lostError(this.#target, this.#log.lastLine ?? "the server closed the connection"));
  }

  #finish(reason: RuntimeError | undefined): void {
    if (this.#end !== undefined) return;
    this.#end = { reason };
    for (const stream of this.#streams) stream.destroy(this.#lost());
    this.#resolveClosed(reason);
  }

  #lost(): RuntimeError {
    return this.#end?.reason ?? lostError(this.#target, "it was closed");
  }
}

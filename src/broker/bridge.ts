import type { Duplex } from "node:stream";
import type { Carrier, CommandChannel } from "../ssh/index.ts";
import { BridgeLink } from "../wire/bridge-link.ts";
import { RuntimeError } from "../wire/errors.ts";
import { shellWord } from "../wire/shell-word.ts";
import { linkAnswers, NOT_FORWARDED, whileLinked } from "./auth-link.ts";
import type { AgentAddress, DeployOptions } from "./deploy.ts";
import { Noise } from "./noise.ts";
import { runAfterSession } from "./session.ts";

/** The way to an agent on a host whose SSH server forwards no streams: all of them over one session's pipes. */
export class AgentBridge {
  readonly #carrier: Carrier;
  readonly #options: Pick<DeployOptions, "host" | "deadlineMs">;
  readonly #forwardAgent: boolean;
  #authProblem: string | undefined;
  #link: Promise<BridgeLink> | undefined;
  #close: () => void = () => {};

  /** @param forwardAgent the session holds the link to the forwarded ssh agent too: a server may give only one */
  constructor(carrier: Carrier, options: Pick<DeployOptions, "host" | "deadlineMs">, forwardAgent: boolean) {
    this.#carrier = carrier;
    this.#options = options;
    this.#forwardAgent = forwardAgent;
  }

  /** Why the link does not lead to an agent, once a stream has been opened. */
  get authProblem(): string | undefined {
    return this.#authProblem;
  }

  /**
   * A byte stream to the agent's socket, with the manners of those of a Carrier. The session is opened when there is
   * none; everybody who asks meanwhile waits for that one.
   *
   * @throws RuntimeError stream-refused when the agent does not listen, session-refused or agent-start-failed when the
   * session cannot be had, connection-timeout, connection-lost
   */
  async openStream(address: AgentAddress): Promise<Duplex> {
    const link = await (this.#link ?? this.#begin(address));
    const opening = link.open();
    return await withDeadline(this.#options.deadlineMs, opening, () => {
      opening.then(
        (stream) => stream.destroy(),
        () => {},
      );
      const { host, deadlineMs } = this.#options;
      return new RuntimeError(
        "connection-timeout",
        `The bridge to the agent on ${host} did not open a stream within ${deadlineMs} ms`,
        "Check the network and try again",
      );
    });
  }

  /** Ends the session and all streams over it. The next stream gets a new one. */
  close(): void {
    this.#link = undefined;
    this.#close();
  }

  #begin(address: AgentAddress): Promise<BridgeLink> {
    const forget = () => {
      if (this.#link === starting) this.#link = undefined;
    };
    const starting = this.#start(address, forget);
    starting.catch(forget);
    this.#link = starting;
    return starting;
  }

  async #start(address: AgentAddress, onClosed: () => void): Promise<BridgeLink> {
    const opening = this.#openSession(address);
    const greeted = opening.then((channel) => this.#greeted(channel, address, onClosed));
    return await withDeadline(this.#options.deadlineMs, greeted, () => {
      // A session that comes too late has nobody else to end it.
      opening.then(
        (channel) => channel.close(),
        () => {},
      );
      return this.#failed(`no answer within ${this.#options.deadlineMs} ms`);
    });
  }

  async #openSession({ sessionEnded }: AgentAddress): Promise<CommandChannel> {
    await sessionEnded;
    try {
      return await runAfterSession(this.#carrier, "/bin/sh", { forwardAgent: this.#forwardAgent });
    } catch (error) {
      if (RuntimeError.from(error).code !== "session-refused") throw error;
      throw new RuntimeError(
        "session-refused",
        `The SSH server on ${this.#options.host} does not forward streams to unix sockets, and has no session left for them`,
        "Raise MaxSessions in its sshd_config, or set AllowTcpForwarding and AllowStreamLocalForwarding to yes",
        { cause: error },
      );
    }
  }

  /** Waits for the first bytes of the host's end, behind whatever the account's start-up files print. */
  #greeted(
    channel: CommandChannel,
    { nodePath, bundle, socket }: AgentAddress,
    onClosed: () => void,
  ): Promise<BridgeLink> {
    return new Promise((resolve, reject) => {
      const noise = new Noise();
      const answers = linkAnswers();
      channel.stderr.on("data", (chunk: Buffer) => noise.add(chunk));
      const link = new BridgeLink(channel.stdout, channel.stdin, {
        onNoise: (bytes) => noise.add(bytes),
        onMagic: () => {
          this.#authProblem = noise.has(answers.linked) ? undefined : NOT_FORWARDED;
          link.greet();
          resolve(link);
        },
        onClosed: (reason) => {
          onClosed();
          channel.close();
          const lost = channel.stdout.errored !== null || reason.code !== "connection-lost";
          reject(lost ? reason : this.#failed(noise.lastLine()));
        },
      });
      this.#close = () => link.close(new RuntimeError("connection-lost", "The bridge to the agent was closed"));
      // Nothing may follow before the answer: a shell may read more than its line, and what it has read is lost.
      const command = [nodePath, bundle, "bridge", socket].map(shellWord).join(" ");
      channel.stdin.write(this.#forwardAgent ? whileLinked(socket, answers, command) : `exec ${command}\n`);
    });
  }

  #failed(said: string): RuntimeError {
    return new RuntimeError(
      "agent-start-failed",
      `The SSH server on ${this.#options.host} does not forward streams to unix sockets, and the bridge that would carry them did not start${said === "" ? "" : ` (${said})`}`,
      "Set AllowTcpForwarding and AllowStreamLocalForwarding to yes in its sshd_config",
    );
  }
}

/** @param late called when the time is up; what comes of the promise afterwards is its own business */
async function withDeadline<Value>(ms: number, promise: Promise<Value>, late: () => RuntimeError): Promise<Value> {
  promise.catch(() => {});
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(late()), ms);
  });
  try {
    return await Promise.race([promise, deadline]);
  } finally {
    clearTimeout(timer);
  }
}

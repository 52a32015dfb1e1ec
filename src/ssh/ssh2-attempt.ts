import type { Readable } from "node:stream";
import ssh2, { type Client, type ClientErrorExtensions } from "ssh2";
import { RuntimeError } from "../wire/errors.ts";
import { agentSocket } from "./auth.ts";
import type { Authenticator } from "./authenticator.ts";
import type { ConnectEvent, ConnectOptions } from "./connect-options.ts";
import type { HostKeyGuard } from "./host-key.ts";
import { connectError, timeoutError } from "./network-errors.ts";
import { algorithmsFor } from "./ssh2-algorithms.ts";
import { Ssh2Carrier } from "./ssh2-carrier.ts";
import { type SshTarget, targetName } from "./target.ts";
import { openTransport, type Transport } from "./transport.ts";

/** What all connections on the way to a target share. */
export interface ChainOptions extends ConnectOptions {
  /** On the clock of `performance.now`. */
  deadlineAt: number;
  /** The connection to the hop before. */
  via: Ssh2Carrier | undefined;
}

type Phase = "connecting" | "authenticating" | "settled";

/** RFC 4253, 11.1: reasons that a server gives when it has had enough of our attempts to log in. */
const REFUSED_LOGIN = new Set([
  2, // PROTOCOL_ERROR; OpenSSH's reason for "Too many authentication failures"
  14, // NO_MORE_AUTH_METHODS_AVAILABLE
]);

/** RFC 4253, 4.2: the longest line of a version. */
const MAX_SAID_BYTES = 255;

/** Ours watches the link (see Ssh2Carrier); ssh2 only sends the questions. */
const NEVER = 1_000_000_000;

/** One attempt to connect to one host and to log in there. */
export class Ssh2Attempt {
  readonly #target: SshTarget;
  readonly #guard: HostKeyGuard;
  readonly #options: ChainOptions;
  readonly #resolve: (carrier: Ssh2Carrier) => void;
  readonly #reject: (error: RuntimeError) => void;
  readonly #client: Client = new ssh2.Client();
  readonly #startedAt = performance.now();
  readonly #opening = new AbortController();
  #transport: Transport | undefined;
  /** What the server has sent first; undefined while there is no connection. */
  #said: string | undefined;
  #deadline: NodeJS.Timeout | undefined;
  #phase: Phase = "connecting";
  #hostKeyRefusal: RuntimeError | undefined;
  #authenticator: Authenticator | undefined;
  #whenAuthenticator: (() => void) | undefined;

  constructor(
    target: SshTarget,
    guard: HostKeyGuard,
    options: ChainOptions,
    resolve: (carrier: Ssh2Carrier) => void,
    reject: (error: RuntimeError) => void,
  ) {
    this.#target = target;
    this.#guard = guard;
    this.#options = options;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  start(): void {
    const { signal } = this.#options;
    if (signal?.aborted) {
      this.#onAbort();
      return;
    }
    signal?.addEventListener("abort", this.#onAbort, { once: true });
    const { connectTimeoutMs } = this.#target;
    const leftMs = Math.max(0, this.#options.deadlineAt - performance.now());
    this.#deadline = setTimeout(() => this.#onTimeout(), Math.min(connectTimeoutMs, leftMs));
    const { authSock, env = process.env, via } = this.#options;
    openTransport(this.#target, {
      via,
      env: { HOME: env.HOME, PATH: env.PATH, SSH_AUTH_SOCK: authSock },
      signal: this.#opening.signal,
    }).then(
      (transport) => this.#onTransport(transport),
      (error) => this.fail(RuntimeError.from(error)),
    );
  }

  #onTransport(transport: Transport): void {
    this.#transport = transport;
    if (this.#phase === "settled") {
      transport.abort();
      return;
    }
    if (transport.stream.errored !== null) {
      this.fail(RuntimeError.from(transport.stream.errored));
      return;
    }
    const toldByServer = this.#target.proxyCommand !== undefined;
    if (!toldByServer) this.#trace("transport", transport.detail);
    this.#client.on("error", (error) => this.#onError(error));
    this.#client.on("handshake", () => this.#onHandshake());
    this.#client.on("change password", () => this.fail(this.#authenticator!.passwordExpired()));
    this.#client.on("ready", () => this.#onReady());
    this.#client.on("close", () => this.#onError(new Error("the server closed the connection")));
    // For forwarding alone: what logs in, and in which order, the authenticator decides.
    const forwardedAgent = this.#target.forwardAgent ? agentSocket(this.#target, this.#options.authSock) : undefined;
    this.#said = "";
    this.#client.connect({
      sock: transport.stream as Readable,
      ...(forwardedAgent === undefined ? {} : { agent: forwardedAgent }),
      username: this.#target.user,
      algorithms: algorithmsFor(this.#guard.knownTypes, this.#target.hostKeyAlgorithms),
      hostVerifier: (key: Buffer) => this.#acceptsHostKey(key),
      authHandler: (accepts, partial, next) => {
        this.#withAuthenticator((authenticator) => authenticator.handler(accepts, partial, next));
      },
      readyTimeout: 0,
      keepaliveInterval: this.#target.keepaliveIntervalMs,
      keepaliveCountMax: NEVER,
      // Other servers have direct-streamlocal too, and those that do not say so.
      strictVendor: false,
    });
    // After ssh2's own listener, since the first one sets the stream in motion.
    transport.stream.once("data", (chunk: Buffer) => {
      this.#said = chunk.toString("latin1", 0, MAX_SAID_BYTES);
      // That a ProxyCommand has been started says nothing yet.
      if (toldByServer) this.#trace("transport", transport.detail);
    });
  }

  useAuthenticator(authenticator: Authenticator): void {
    this.#authenticator = authenticator;
    this.#whenAuthenticator?.();
  }

  fail(error: RuntimeError): void {
    if (this.#phase === "settled") return;
    this.#settle();
    this.#opening.abort();
    // Errors may still arrive while the socket goes away; the listener stays for them.
    this.#transport?.abort();
    this.#reject(error);
  }

  #withAuthenticator(use: (authenticator: Authenticator) => void): void {
    if (this.#authenticator !== undefined) use(this.#authenticator);
    else this.#whenAuthenticator = () => use(this.#authenticator!);
  }

  #trace(step: ConnectEvent["step"], detail: string): void {
    this.#options.trace?.({ step, name: targetName(this.#target), detail });
  }

  #settle(): void {
    this.#phase = "settled";
    clearTimeout(this.#deadline);
    this.#options.signal?.removeEventListener("abort", this.#onAbort);
  }

  #onTimeout(): void {
    const said = this.#transport?.complaint?.();
    this.fail(timeoutError(this.#target, said ? `the ProxyCommand said: ${said}` : undefined));
  }

  readonly #onAbort = (): void => {
    this.fail(
      new RuntimeError(
        "connection-failed",
        `The connection to ${targetName(this.#target)} was given up before it was established`,
      ),
    );
  };

  /** ssh2 calls it at every key exchange, those of an established connection included. */
  #acceptsHostKey(key: Buffer): boolean {
    this.#hostKeyRefusal = this.#guard.refusal(Buffer.from(key));
    return this.#hostKeyRefusal === undefined;
  }

  #onHandshake(): void {
    if (this.#phase !== "connecting") return;
    this.#phase = "authenticating";
    try {
      this.#guard.fileNewKey();
      this.#trace("host-key", this.#guard.acceptedKey ?? "");
    } catch (error) {
      this.fail(RuntimeError.from(error));
    }
  }

  #onReady(): void {
    if (this.#phase === "settled") return;
    this.#settle();
    this.#client.removeAllListeners("close");
    this.#client.removeAllListeners("error");
    this.#options.log?.(
      `connected to ${targetName(this.#target)} with ${this.#authenticator?.lastTried ?? "no key"} in ${Math.round(performance.now() - this.#startedAt)} ms`,
    );
    this.#trace("login", this.#authenticator?.trail ?? "no key");
    this.#resolve(new Ssh2Carrier(this.#client, this.#transport!, this.#target, () => this.#hostKeyRefusal));
  }

  #onError(error: Error & ClientErrorExtensions): void {
    if (this.#phase === "settled") return;
    if (this.#hostKeyRefusal !== undefined) {
      this.fail(this.#hostKeyRefusal);
    } else if (error instanceof RuntimeError) {
      // The transport knows why it ended.
      this.fail(error);
    } else if (this.#phase === "connecting") {
      this.fail(connectError(error, this.#target, this.#said));
    } else if (
      error.level === "agent" ||
      (error.level === "client-authentication" && !this.#authenticator?.exhausted)
    ) {
      // One key could not sign (the agent asked and was refused, say); ssh2 goes on to the next.
      this.#options.log?.(`a key could not be used: ${error.message}`);
    } else if (error.level === "client-authentication") {
      this.fail(this.#authenticator!.failure());
    } else if (this.#authenticator?.hasOffered && REFUSED_LOGIN.has(Number((error as { code?: unknown }).code))) {
      this.fail(this.#authenticator.failure(error.message));
    } else {
      this.fail(connectError(error, this.#target));
    }
  }
}

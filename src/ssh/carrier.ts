import type { Duplex, Readable, Writable } from "node:stream";
import type { RuntimeError } from "../wire/errors.ts";

/**
 * One open connection to a build host, whatever carries it. Everything that makes bytes flow to a host goes through
 * this interface; ssh2 is behind the first implementation, and nothing outside may know.
 */
export interface Carrier {
  /** Which program speaks SSH. */
  readonly kind: "ssh2" | "openssh";

  /**
   * Opens a byte stream to a unix socket on the host. The stream half-closes both ways. When the connection is lost it
   * is destroyed with a `connection-lost` error at once, unread bytes included; it never ends as if the peer had ended
   * it. Nobody has to listen for that error.
   *
   * @throws RuntimeError
   *  - `forwarding-refused`: the server does not allow such streams, or does not know them
   *  - `stream-refused`: nothing listens at the socket, or the server does not allow such streams; OpenSSH gives the
   *    same reason for both. When the agent is known to listen (it has just said so in a session), it is the latter.
   *  - `connection-timeout`: no answer in time; the link is probably dead
   *  - `connection-lost`
   */
  openStream(socketPath: string): Promise<Duplex>;

  /**
   * Runs a command with the account's login shell, as `ssh host command` does. Both outputs have to be read: unread
   * bytes of one hold up the other.
   *
   * @param options forwardAgent: offer the local ssh agent to the command; where there is none, or the server forbids it,
   * the command runs without SSH_AUTH_SOCK
   * @throws RuntimeError `session-refused` (MaxSessions, or an account without a shell), `connection-timeout`,
   * `connection-lost`
   */
  run(command: string, options?: { forwardAgent?: boolean }): Promise<CommandChannel>;

  /** Resolves once, with the reason, or with undefined after `close`. Every stream is destroyed by then. */
  readonly closed: Promise<RuntimeError | undefined>;

  close(): void;
}

export interface CommandChannel {
  stdin: Writable;
  stdout: Readable;
  stderr: Readable;
  /**
   * What the server said about the end of the command; both null when it said nothing, as after a lost connection. It
   * may come before the last output has been read.
   */
  exit: Promise<CommandExit>;
  /** Lets go of the command without waiting for it. The server closes its pipes; it does not end the process. */
  close(): void;
}

export interface CommandExit {
  code: number | null;
  /** With the prefix: `SIGTERM`. */
  signal: string | null;
}

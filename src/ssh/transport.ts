import { connect as connectTcp, isIP } from "node:net";
import type { Duplex } from "node:stream";
import { connectError } from "./network-errors.ts";
import { type CommandEnvironment, openProxyCommand } from "./proxy-command.ts";
import type { Ssh2Carrier } from "./ssh2-carrier.ts";
import { familyOf, type SshTarget, targetName } from "./target.ts";

/** What carries the SSH protocol to a server: TCP, a ProxyCommand, or a stream through the connection of a jump host. */
export interface Transport {
  /** When it fails for a reason that a person should read, it is destroyed with a RuntimeError. */
  readonly stream: Duplex;
  /** What was found, for a person. */
  readonly detail: string;
  /** What a ProxyCommand has said on stderr so far. */
  complaint?(): string;
  /** Lets what has been written leave, and ends all that belongs to it. */
  close(): void;
  /** Ends all that belongs to it at once. */
  abort(): void;
}

export interface TransportOptions {
  /** The connection to the jump host, for a target that has one. It ends with the transport. */
  via: Ssh2Carrier | undefined;
  env: CommandEnvironment;
  /** Ends the opening; without effect afterwards. */
  signal: AbortSignal;
}

/**
 * @throws RuntimeError host-unknown, connection-refused, connection-timeout, connection-failed, connection-lost,
 * forwarding-refused, proxy-failed, option-invalid
 */
export async function openTransport(target: SshTarget, options: TransportOptions): Promise<Transport> {
  if (options.via !== undefined) return await openThroughHop(target, options.via);
  if (target.proxyCommand !== undefined) return openProxyCommand(target, options.env);
  return await openTcp(target, options.signal);
}

async function openThroughHop(target: SshTarget, hop: Ssh2Carrier): Promise<Transport> {
  const stream = await hop.openTcp(target.host, target.port);
  // SSH has no half-closed connections: a server that has ended its side is gone, as after a reset of its socket.
  stream.once("end", () => void stream.end());
  return {
    stream,
    detail: `through ${targetName(target.jump!)}`,
    close: () => {
      // What was written lies in the hop's socket already, in front of the hop's own goodbye.
      stream.end();
      hop.close();
    },
    abort: () => {
      stream.destroy();
      hop.close();
    },
  };
}

function openTcp(target: SshTarget, signal: AbortSignal): Promise<Transport> {
  const { bindAddress, host, port } = target;
  const family = familyOf(target);
  // Node looks at the family of names only.
  if (family !== 0 && isIP(host) !== 0 && isIP(host) !== family) {
    throw connectError({ code: "EAI_ADDRFAMILY" }, target);
  }
  return new Promise((resolve, reject) => {
    const socket = connectTcp({
      host,
      port,
      family,
      ...(bindAddress === undefined ? {} : { localAddress: bindAddress }),
      // ssh2 leaves Nagle's algorithm on: a channel and one echo take 44 ms on loopback with it, 1 ms without.
      noDelay: true,
    });
    const onAbort = () => void socket.destroy();
    signal.addEventListener("abort", onAbort, { once: true });
    const onError = (error: Error) => reject(connectError(error, target));
    socket.once("error", onError);
    socket.once("connect", () => {
      signal.removeEventListener("abort", onAbort);
      socket.removeListener("error", onError);
      resolve({
        stream: socket,
        detail: socket.remoteAddress ?? "",
        close: () => socket.destroySoon(),
        abort: () => void socket.destroy(),
      });
    });
  });
}

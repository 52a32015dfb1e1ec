import { connect, Socket } from "node:net";
import { BridgeLink } from "../src/wire/bridge-link.ts";
import type { BridgeStream } from "../src/wire/bridge-stream.ts";
import { MAX_BRIDGED_CONNECTIONS } from "../src/wire/limits.ts";

const STDIN = 0;
const STDOUT = 1;

/**
 * `node agent.cjs bridge <socket>`, in an SSH session: the host's end of a bridge. Ends with its session.
 * @param socketPath the agent's socket
 */
export function runBridge(socketPath: string): void {
  // Sockets of our own: process.stdout writes synchronously to a pipe, and nothing would be read meanwhile.
  const input = new Socket({ fd: STDIN, readable: true, writable: false });
  const output = new Socket({ fd: STDOUT, readable: false, writable: true });
  const link: BridgeLink = new BridgeLink(input, output, {
    onOpen: (connection) => {
      if (link.count > MAX_BRIDGED_CONNECTIONS) link.refuse(connection);
      else join(link, connection, socketPath);
    },
    onClosed: () => process.exit(0),
  });
  link.greet();
}

function join(link: BridgeLink, connection: number, socketPath: string): void {
  const socket = connect({ path: socketPath, allowHalfOpen: true });
  let stream: BridgeStream | undefined;
  socket.once("connect", () => {
    stream = link.accept(connection);
    if (stream === undefined) socket.destroy();
    else joinStreams(stream, socket);
  });
  socket.on("error", () => link.refuse(connection));
}

/** Half-closes pass both ways, and what is whole or was sent before a close still arrives. */
function joinStreams(stream: BridgeStream, socket: Socket): void {
  stream.pipe(socket);
  socket.pipe(stream);
  socket.once("close", () => {
    stream.end();
    if (stream.writableFinished) stream.destroy();
    else stream.once("finish", () => stream.destroy());
  });
  stream.once("close", () => {
    if (stream.errored === null) socket.destroySoon();
    else socket.destroy();
  });
}

import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import ssh2, { type AuthContext, type Connection, type ParsedKey } from "ssh2";
import { CommandRunner } from "./embedded-commands.ts";
import { joinToUnixSocket } from "./embedded-streams.ts";

export interface EmbeddedServerOptions {
  /** The one account that may log in, and its one key. */
  user: string;
  userKey: ParsedKey;
  /** Private key in OpenSSH's format. */
  hostKey: string;
  /** Working folder and whole environment of commands. */
  home: string;
  env: NodeJS.ProcessEnv;
}

export interface EmbeddedServer {
  port: number;
  /** Ends all connections, what runs for them, and the listener. */
  stop(): Promise<void>;
}

/**
 * An SSH server inside this process, for machines without sshd: on 127.0.0.1, at a free port, with as much of SSH as a
 * build host needs. That is public keys, commands with pipes, and streams to unix sockets.
 */
export async function startEmbeddedServer(options: EmbeddedServerOptions): Promise<EmbeddedServer> {
  const sockets = new Set<Socket>();
  const commands = new CommandRunner(options.home, options.env);
  const server = new ssh2.Server({ hostKeys: [options.hostKey] }, (connection) => {
    serve(connection, options, commands);
  });
  // ssh2 leaves Nagle's algorithm on, which would add 40 ms to most exchanges; so the listener is ours.
  const listener = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    server.injectSocket(socket);
  });
  listener.listen(0, "127.0.0.1");
  await once(listener, "listening");
  const address = listener.address();
  if (address === null || typeof address === "string") throw new TypeError("A TCP server without a port");
  return {
    port: address.port,
    stop: async () => {
      const closed = once(listener, "close");
      listener.close();
      for (const socket of sockets) socket.destroy();
      commands.stop();
      await closed;
    },
  };
}

function serve(connection: Connection, options: EmbeddedServerOptions, commands: CommandRunner): void {
  // A client that goes away in the middle of something is no failure of the demo.
  connection.on("error", () => {});
  connection.on("authentication", (context) => {
    if (isAllowed(context, options)) context.accept();
    else context.reject(["publickey"]);
  });
  connection.on("session", (accept) => {
    accept().on("exec", (acceptCommand, _reject, { command }) => commands.run(command, acceptCommand()));
  });
  connection.on("openssh.streamlocal", (accept, reject, { socketPath }) => {
    joinToUnixSocket(socketPath, accept, reject);
  });
}

/** Without a signature the client only asks whether this key would do (RFC 4252, 7). */
function isAllowed(context: AuthContext, { user, userKey }: EmbeddedServerOptions): boolean {
  if (context.method !== "publickey" || context.username !== user) return false;
  if (!userKey.getPublicSSH().equals(context.key.data)) return false;
  if (context.signature === undefined || context.blob === undefined) return true;
  return userKey.verify(context.blob, context.signature, context.hashAlgo) === true;
}

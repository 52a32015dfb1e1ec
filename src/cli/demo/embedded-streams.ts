import { connect } from "node:net";
import type { ServerChannel } from "ssh2";

/**
 * Serves a `direct-streamlocal@openssh.com` channel: joins it to a unix socket, with back-pressure and ends both ways.
 * A channel of ssh2's server closes as a whole when its sending half ends, so what is still on its way to the socket
 * then is flushed, and nothing more is taken.
 */
export function joinToUnixSocket(path: string, accept: () => ServerChannel, reject: () => void): void {
  const socket = connect({ path, allowHalfOpen: true });
  socket.once("error", reject);
  socket.once("connect", () => {
    socket.off("error", reject);
    const channel = accept();
    channel.on("error", () => socket.destroy());
    channel.once("close", () => socket.destroySoon());
    socket.on("error", () => channel.destroy());
    channel.pipe(socket);
    socket.pipe(channel);
  });
}

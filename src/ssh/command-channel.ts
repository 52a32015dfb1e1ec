import { type Duplex, Readable, Writable } from "node:stream";
import type { CommandChannel, CommandExit } from "./carrier.ts";

/** What a carrier's library tells of a session channel. */
export interface SessionChannel {
  stderr: Readable;
  /** The signal comes with its prefix. */
  once(event: "exit", listener: (code: number | null, signal?: string) => void): unknown;
}

/**
 * Makes a command out of a session channel. Its input and output are streams of their own: whoever reads the output to
 * its end with `for await` destroys what he reads, and with a duplex stream that would close the channel before the exit
 * status has come.
 */
export function commandChannel(channel: SessionChannel, stream: Duplex): CommandChannel {
  const exit = new Promise<CommandExit>((resolve) => {
    channel.once("exit", (code: number | null, signal?: string) => resolve({ code, signal: signal ?? null }));
    // The server may answer a closed channel only when the process ends, so what counts is our own side.
    stream.once("close", () => resolve({ code: null, signal: null }));
  });
  const stdin = new Writable({
    write: (chunk: Buffer, _encoding, callback) => void stream.write(chunk, callback),
    final: (callback) => void stream.end(callback),
    destroy: (error, callback) => {
      stream.end();
      callback(error);
    },
  });
  const stdout = new Readable({
    read: () => void stream.resume(),
    destroy: (error, callback) => {
      // The rest flows off unread, so that the command is not held up and the channel comes to its end.
      stream.resume();
      callback(error);
    },
  });
  stream.on("data", (chunk: Buffer) => {
    if (!stdout.push(chunk) && !stdout.destroyed) stream.pause();
  });
  stream.on("end", () => stdout.push(null));
  stream.on("error", (error) => {
    stdin.destroy(error);
    stdout.destroy(error);
  });
  // As with any stream of a carrier, nobody has to listen for a lost connection.
  for (const end of [stdin, stdout]) end.on("error", () => {});
  return { stdin, stdout, stderr: channel.stderr, exit, close: () => void stream.destroy() };
}

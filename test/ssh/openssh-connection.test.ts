import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { type ProxyChannel, WINDOW_BYTES } from "../../src/ssh/openssh-channel.ts";
import { OpenFailure, ProxyConnection } from "../../src/ssh/openssh-connection.ts";
import { takeOverMaster } from "../../src/ssh/openssh-mux.ts";
import { byte, concat, frame, Reader, string, uint32 } from "../../src/ssh/openssh-wire.ts";
import { socketPair } from "../support/socket-pair.ts";
import { temporaryFolder } from "./support.ts";

/** What a real ssh does not send: messages that are damaged, out of order or too many. */

const REMOTE_ID = 42;

/** The messages that the other side has got, one at a time. */
async function* messagesOf(socket: Socket): AsyncGenerator<Buffer> {
  let pending = Buffer.alloc(0);
  for await (const chunk of socket as AsyncIterable<Buffer>) {
    pending = Buffer.concat([pending, chunk]);
    while (pending.length >= 4 && pending.length >= 4 + pending.readUInt32BE(0)) {
      const end = 4 + pending.readUInt32BE(0);
      yield pending.subarray(5, end);
      pending = pending.subarray(end);
    }
  }
}

async function start() {
  const [near, far] = await socketPair();
  const closed = later<string | undefined>();
  const connection = new ProxyConnection(near, closed.resolve);
  const messages = messagesOf(far);
  const next = async () => (await messages.next()).value as Buffer;
  const send = (type: number, ...parts: Buffer[]) => far.write(frame(concat([byte(type), ...parts])));
  /** A channel with this much credit. */
  async function open(window = 1000, maxPiece = 1000): Promise<ProxyChannel> {
    const opening = connection.open("session", Buffer.alloc(0));
    const reader = new Reader(await next());
    reader.byte();
    reader.string();
    send(91, uint32(reader.uint32()), uint32(REMOTE_ID), uint32(window), uint32(maxPiece));
    return await opening;
  }
  return { connection, far, next, send, open, closed: closed.promise };
}

function later<Value>(): { promise: Promise<Value>; resolve: (value: Value) => void } {
  let resolve!: (value: Value) => void;
  const promise = new Promise<Value>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}

describe("a connection through a master", () => {
  it.each([
    ["an empty frame", uint32(0)],
    ["a frame without a message", concat([uint32(1), byte(0)])],
    ["a frame without end", uint32(0xffffffff)],
    ["a message that is cut", frame(byte(91))],
    ["an answer that nobody waits for", frame(concat([byte(91), uint32(7), uint32(1), uint32(1), uint32(1)]))],
    ["data that is longer than its message", frame(concat([byte(94), uint32(0), uint32(5), byte(1)]))],
  ])("ends at %s", async (_, bytes) => {
    const { connection, far, open, closed } = await start();
    await open();
    const pending = connection.open("session", Buffer.alloc(0)).catch((error: Error) => error.message);
    far.write(bytes);
    expect(await closed).toEqual(expect.stringMatching(/./));
    expect(await pending).toBe("the connection is closed");
  });

  it("ends when a server sends more than it was given credit for", async () => {
    const { send, open, closed } = await start();
    await open();
    const piece = string(Buffer.alloc(32 * 1024));
    for (let bytes = 0; bytes <= WINDOW_BYTES; bytes += 32 * 1024) send(94, uint32(0), piece);
    expect(await closed).toMatch(/more than it was given credit for/);
  });

  it("gives credit for what was read, of both outputs, and not for what was not", async () => {
    const { send, open, next } = await start();
    const channel = await open();
    const piece = Buffer.alloc(32 * 1024);
    for (let count = 0; count < 10; count += 1) {
      send(94, uint32(0), string(piece));
      send(95, uint32(0), uint32(1), string(piece));
    }
    send(96, uint32(0));
    const [out, err] = [[], []] as [Buffer[], Buffer[]];
    channel.on("data", (chunk: Buffer) => out.push(chunk));
    channel.stderr.on("data", (chunk: Buffer) => err.push(chunk));
    await Promise.all([once(channel, "end"), once(channel.stderr, "end")]);
    expect([Buffer.concat(out).length, Buffer.concat(err).length]).toEqual([10 * piece.length, 10 * piece.length]);
    channel.destroy();
    let credited = 0;
    for (;;) {
      const reader = new Reader(await next());
      const type = reader.byte();
      expect(reader.uint32()).toBe(REMOTE_ID);
      if (type === 97) break;
      expect(type).toBe(93);
      credited += reader.uint32();
    }
    expect(credited).toBeGreaterThanOrEqual(256 * 1024);
    expect(credited).toBeLessThanOrEqual(20 * piece.length);
  });

  it("sends no more than its credit, in pieces that the server takes", async () => {
    const { send, open, next } = await start();
    const channel = await open(5, 2);
    let written = false;
    channel.write("abcdefgh", () => {
      written = true;
    });
    const pieces = async (count: number) => {
      const texts: string[] = [];
      for (let index = 0; index < count; index += 1) {
        const reader = new Reader(await next());
        expect([reader.byte(), reader.uint32()]).toEqual([94, REMOTE_ID]);
        texts.push(reader.string().toString());
      }
      return texts;
    };
    expect(await pieces(3)).toEqual(["ab", "cd", "e"]);
    expect(written).toBe(false);
    send(93, uint32(0), uint32(100));
    expect(await pieces(2)).toEqual(["fg", "h"]);
    await expect.poll(() => written).toBe(true);
  });

  it("understands messages that come byte by byte", async () => {
    const { far, open } = await start();
    const channel = await open();
    const bytes = concat([frame(concat([byte(94), uint32(0), string("hello")])), frame(concat([byte(97), uint32(0)]))]);
    far.setNoDelay();
    for (const one of bytes) far.write(byte(one));
    const chunks: Buffer[] = [];
    for await (const chunk of channel) chunks.push(chunk);
    expect(Buffer.concat(chunks).toString()).toBe("hello");
  });

  it("refuses channels and requests of the server, and passes over what it does not know", async () => {
    const { send, open, next } = await start();
    await open();
    send(1, string("nothing of ours"));
    send(94, uint32(99), string("for nobody"));
    send(90, string("auth-agent@openssh.com"), uint32(5), uint32(1), uint32(1));
    const refusal = new Reader(await next());
    expect([refusal.byte(), refusal.uint32(), refusal.uint32()]).toEqual([92, 5, 1]);
    send(98, uint32(0), string("eow@openssh.com"), byte(0));
    send(98, uint32(0), string("keepalive@openssh.com"), byte(1));
    const failure = new Reader(await next());
    expect([failure.byte(), failure.uint32()]).toEqual([100, REMOTE_ID]);
  });

  it("says why a channel was not opened", async () => {
    const { connection, send, next } = await start();
    const opening = connection.open("session", Buffer.alloc(0));
    await next();
    send(92, uint32(0), uint32(4), string("no more"), string(""));
    const error = await opening.catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(OpenFailure);
    expect(error).toMatchObject({ reason: 4, message: "no more" });
  });
});

describe("taking a master over", () => {
  async function masterThat(answers: Buffer | undefined): Promise<string> {
    const path = join(temporaryFolder(), "control");
    const sockets: Socket[] = [];
    const server = createServer((socket) => {
      sockets.push(socket.on("error", () => {}));
      if (answers === undefined) socket.end();
      else socket.write(answers);
    });
    server.listen(path);
    await once(server, "listening");
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy();
      server.close();
    });
    return path;
  }
  const hello = string(concat([uint32(1), uint32(4)]));
  const ok = string(concat([uint32(0x80000001), uint32(0)]));
  const proxy = string(concat([uint32(0x8000000f), uint32(1)]));

  it("leaves what came behind its answers to be read", async () => {
    const line = await takeOverMaster(await masterThat(concat([hello, ok, proxy, Buffer.from("rest")])));
    const arrived = once(line, "data");
    line.resume();
    const [chunk] = await arrived;
    expect(String(chunk)).toBe("rest");
    line.destroy();
  });

  it.each([
    ["closes", undefined],
    ["refuses", concat([hello, ok, string(concat([uint32(0x80000003), uint32(1), string("no")]))])],
    ["speaks something else", Buffer.from("SSH-2.0-OpenSSH_9.2\r\n")],
    ["answers without end", concat([uint32(0x7fffffff), uint32(1)])],
  ])("fails when it %s", async (_, answers) => {
    await expect(takeOverMaster(await masterThat(answers))).rejects.toThrow("the control socket");
  });

  it("fails when nobody listens", async () => {
    await expect(takeOverMaster(join(temporaryFolder(), "none"))).rejects.toThrow("ENOENT");
  });
});

import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { buffer, text } from "node:stream/consumers";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import type { Carrier } from "../../src/ssh/carrier.ts";
import { RuntimeError } from "../../src/wire/errors.ts";
import { connect, output, readAll, resolve, temporaryFolder } from "../ssh/support.ts";
import { type DelayingProxy, startDelayingProxy } from "../support/delaying-proxy.ts";
import { describeReal } from "../support/requirements.ts";
import { type Sshd, startSshd } from "../support/sshd.ts";

const MEBIBYTE = 1024 * 1024;

/** A unix socket server on the "host". Returns its path. */
async function serve(onConnection: (socket: Socket) => void): Promise<string> {
  const path = join(temporaryFolder(), "socket");
  const sockets = new Set<Socket>();
  const server: Server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket.on("error", () => {}));
    onConnection(socket);
  });
  server.listen(path);
  await once(server, "listening");
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return path;
}

function withResolvers<Value>(): { promise: Promise<Value>; resolve: (value: Value) => void } {
  let resolve!: (value: Value) => void;
  const promise = new Promise<Value>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}

/** Resolves when a count has not changed for a while. */
async function standsStill(count: () => number): Promise<void> {
  let before = -1;
  const sameAgain = () => {
    const same = count() === before;
    before = count();
    return same;
  };
  await expect.poll(sameAgain, { interval: 200 }).toBe(true);
}

const echo = (socket: Socket) => socket.pipe(socket);

describeReal.each(["ssh2", "openssh"] as const)("streams to unix sockets over %s", (kind) => {
  let sshd: Sshd;
  beforeAll(async () => {
    sshd = await startSshd();
  });
  afterAll(() => sshd?.stop());

  const carrierTo = async (extra: Record<string, unknown> = {}, server = sshd): Promise<Carrier> =>
    connect(await resolve(server.options({ carrier: kind, ...extra })));

  /** A carrier whose link the test can spoil. */
  async function spoiled(extra: Record<string, unknown> = {}): Promise<{ carrier: Carrier; proxy: DelayingProxy }> {
    const proxy = await startDelayingProxy({ target: sshd, oneWayDelayMs: 0 });
    onTestFinished(() => proxy.stop());
    const known = { knownHostsFile: join(temporaryFolder(), "kh"), hostKeyPolicy: "accept-new" };
    return { proxy, carrier: await carrierTo({ port: proxy.port, ...known, ...extra }) };
  }
  const failure = (stream: Duplex) => once(stream, "error").then(([error]) => error as unknown);

  it("carry bytes both ways and half-close", async () => {
    const path = await serve((socket) => {
      readAll(socket).then((said) => socket.end(`heard ${said}`));
    });
    const stream = await (await carrierTo()).openStream(path);
    stream.end("hello");
    expect(String(await readAll(stream))).toBe("heard hello");
    if (!stream.closed) await once(stream, "close");
  });

  it("stay open for writing after the other side has ended", async () => {
    const heard = withResolvers<Buffer>();
    const path = await serve((socket) => {
      socket.end("bye");
      readAll(socket).then(heard.resolve);
    });
    const stream = await (await carrierTo()).openStream(path);
    expect(String(await readAll(stream))).toBe("bye");
    stream.end("last words");
    expect(String(await heard.promise)).toBe("last words");
  });

  it("keep what the other side sent before it closed, while we were still writing", async () => {
    const path = await serve((socket) => socket.end("refused", () => socket.destroy()));
    const stream = await (await carrierTo()).openStream(path);
    let pending = 0;
    for (let count = 0; count < 64; count += 1) {
      pending += 1;
      stream.write(Buffer.alloc(MEBIBYTE), () => {
        pending -= 1;
      });
    }
    expect(await text(stream)).toBe("refused");
    if (!stream.closed) await once(stream, "close");
    expect(pending).toBe(0);
  });

  it("close the host's side when they are destroyed", async () => {
    const closed = withResolvers<void>();
    const path = await serve((socket) =>
      socket
        .resume()
        .on("end", () => socket.end())
        .on("close", () => closed.resolve()),
    );
    const stream = await (await carrierTo()).openStream(path);
    stream.write("x");
    stream.destroy();
    await closed.promise;
  });

  it("carry more than the server sends under one key, unchanged", async () => {
    const rekeying = await startSshd({ config: ["RekeyLimit 4M"] });
    onTestFinished(() => rekeying.stop());
    const carrier = await carrierTo({}, rekeying);
    const stream = await carrier.openStream(await serve(echo));
    const block = randomBytes(MEBIBYTE);
    const sent = createHash("sha256");
    const received = buffer(stream);
    for (let count = 0; count < 48; count += 1) {
      block.writeUInt32BE(count, 0);
      sent.update(block);
      if (!stream.write(Buffer.from(block))) await once(stream, "drain");
    }
    stream.end();
    const content = await received;
    expect(content.length).toBe(48 * MEBIBYTE);
    expect(createHash("sha256").update(content).digest("hex")).toBe(sent.digest("hex"));
  });

  it("open 250 at once on a stock server", async () => {
    const path = await serve(echo);
    const carrier = await carrierTo();
    const streams = await Promise.all(Array.from({ length: 250 }, () => carrier.openStream(path)));
    const answers = streams.map((stream, index) => {
      stream.end(`stream ${index}`);
      return text(stream);
    });
    expect(await Promise.all(answers)).toEqual(streams.map((_, index) => `stream ${index}`));
  });

  it("hold the sender back while nobody reads, without holding up another stream", async () => {
    let written = 0;
    const path = await serve((socket) => {
      const block = Buffer.alloc(MEBIBYTE / 4);
      const count = () => {
        written += block.length;
      };
      const write = () => {
        while (socket.write(block, count));
        socket.once("drain", write);
      };
      write();
    });
    const carrier = await carrierTo();
    const unread = await carrier.openStream(path);
    const quick = await carrier.openStream(await serve(echo));
    quick.end("quick");
    expect(await text(quick)).toBe("quick");
    await expect.poll(() => written).toBeGreaterThan(MEBIBYTE);
    await standsStill(() => written);
    expect(written).toBeLessThan(8 * MEBIBYTE);
    unread.destroy();
  });

  it("answer at once on small messages after a first command", async () => {
    const carrier = await carrierTo();
    await output(carrier, "true");
    const stream = await carrier.openStream(await serve(echo));
    const rounds: number[] = [];
    for (let count = 0; count < 20; count += 1) {
      const begun = performance.now();
      stream.write("a");
      await once(stream, "data");
      rounds.push(performance.now() - begun);
    }
    // With Nagle's algorithm on either side every other round takes 40 ms.
    expect(rounds.sort((left, right) => left - right)[15]).toBeLessThan(20);
  });

  it.each(["AllowTcpForwarding no", "AllowStreamLocalForwarding no", "DisableForwarding yes"])(
    "are refused by a server with %s, with the same reason as a missing socket",
    async (line) => {
      const strict = await startSshd({ config: [line] });
      onTestFinished(() => strict.stop());
      const carrier = await carrierTo({}, strict);
      await expect(carrier.openStream(await serve(echo))).rejects.toMatchObject({ code: "stream-refused" });
      expect(await output(carrier, "echo still here")).toMatchObject({ stdout: "still here\n" });
    },
  );

  it("are refused when nothing listens, or the path is none", async () => {
    const carrier = await carrierTo();
    for (const path of ["/nonexistent/socket", "", `/${"x".repeat(107)}`, "/a\0b"]) {
      await expect(carrier.openStream(path)).rejects.toMatchObject({ code: "stream-refused" });
    }
  });

  it("fail at once when the connection is reset, also those that nobody listens to", async () => {
    const { carrier, proxy } = await spoiled();
    const path = await serve(echo);
    const [stream, idle] = [await carrier.openStream(path), await carrier.openStream(path)];
    const command = await carrier.run("exec cat");
    const failed = failure(stream);
    proxy.cut();
    expect(await failed).toMatchObject({ code: "connection-lost" });
    expect(await carrier.closed).toBeInstanceOf(RuntimeError);
    expect([stream.destroyed, idle.destroyed, stream.readableEnded]).toEqual([true, true, false]);
    expect(await command.exit).toEqual({ code: null, signal: null });
    await expect(carrier.openStream(path)).rejects.toMatchObject({ code: "connection-lost" });
    await expect(carrier.run("true")).rejects.toMatchObject({ code: "connection-lost" });
  });

  it("fail when the server ends the connection", async () => {
    const carrier = await carrierTo();
    const failed = failure(await carrier.openStream(await serve(echo)));
    sshd.killSessions();
    expect(await failed).toMatchObject({ code: "connection-lost" });
    expect(await carrier.closed).toMatchObject({ code: "connection-lost" });
  });

  it("fail after four silent keepalive intervals when the link swallows everything", async () => {
    // The ssh program counts in whole seconds.
    const expected = {
      ssh2: { reason: "no answer for 600 ms", within: 2_000 },
      openssh: { reason: "Timeout, server 127.0.0.1 not responding.", within: 6_000 },
    }[kind];
    const { carrier, proxy } = await spoiled({ keepaliveIntervalMs: 200 });
    const failed = failure(await carrier.openStream(await serve(echo)));
    const begun = performance.now();
    proxy.blackhole(true);
    expect(await failed).toMatchObject({
      code: "connection-lost",
      message: expect.stringContaining(expected.reason),
    });
    expect(performance.now() - begun).toBeLessThan(expected.within);
  });

  it("have a deadline for opening over a dead link", async () => {
    const { carrier, proxy } = await spoiled({ keepaliveIntervalMs: 60_000, connectTimeoutMs: 1_000 });
    const path = await serve(echo);
    proxy.blackhole(true);
    await expect(carrier.openStream(path)).rejects.toMatchObject({ code: "connection-timeout" });
    await expect(carrier.run("true")).rejects.toMatchObject({ code: "connection-timeout" });
  });

  it("close a stream that opens after its deadline", async () => {
    const { carrier, proxy } = await spoiled({ keepaliveIntervalMs: 60_000, connectTimeoutMs: 500 });
    const closed = withResolvers<void>();
    const path = await serve((socket) =>
      socket
        .resume()
        .on("end", () => socket.end())
        .on("close", () => closed.resolve()),
    );
    proxy.stall(true);
    await expect(carrier.openStream(path)).rejects.toMatchObject({ code: "connection-timeout" });
    proxy.stall(false);
    await closed.promise;
    expect(await output(carrier, "echo alive")).toMatchObject({ stdout: "alive\n" });
  });

  it("do not count a slow link as dead while it delivers", async () => {
    const { carrier, proxy } = await spoiled({ keepaliveIntervalMs: 200 });
    const bytes = MEBIBYTE;
    const path = await serve((socket) => socket.end(Buffer.alloc(bytes)));
    // The answer to a keepalive stands behind 1 MiB, more than two seconds.
    proxy.rateLimit(400_000);
    const stream = await carrier.openStream(path);
    expect((await buffer(stream)).length).toBe(bytes);
    proxy.rateLimit(undefined);
    expect(await output(carrier, "echo alive")).toMatchObject({ stdout: "alive\n" });
  });

  it("end without a reason when the carrier is closed", async () => {
    const carrier = await carrierTo();
    const stream = await carrier.openStream(await serve(echo));
    const failed = failure(stream);
    const mark = sshd.log().length;
    carrier.close();
    carrier.close();
    expect(await carrier.closed).toBeUndefined();
    expect(await failed).toMatchObject({ code: "connection-lost" });
    await expect.poll(() => sshd.log().slice(mark)).toContain("Received disconnect");
  });
});

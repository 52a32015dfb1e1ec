import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { type DelayingProxy, startDelayingProxy } from "../support/delaying-proxy.ts";

/** The instrument of other tests and of the measurements: what it promises has to be true. */

async function setUp(oneWayDelayMs: number, onConnection: (socket: Socket) => void = (socket) => socket.pipe(socket)) {
  const accepted: Socket[] = [];
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    accepted.push(socket.on("error", () => {}));
    onConnection(socket);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const proxy = await startDelayingProxy({
    target: { host: "127.0.0.1", port: (server.address() as { port: number }).port },
    oneWayDelayMs,
  });
  onTestFinished(async () => {
    await proxy.stop();
    for (const socket of accepted) socket.destroy();
    server.close();
  });
  return { proxy, accepted };
}

async function dial(proxy: DelayingProxy): Promise<Socket> {
  const socket = connect({ port: proxy.port, host: proxy.host, noDelay: true, allowHalfOpen: true });
  socket.on("error", () => {});
  onTestFinished(() => void socket.destroy());
  await once(socket, "connect");
  return socket;
}

async function roundTrip(socket: Socket): Promise<number> {
  const begun = performance.now();
  socket.write("x");
  await once(socket, "data");
  return performance.now() - begun;
}

describe("startDelayingProxy", () => {
  it("takes four one-way trips for a connection's first answer and two for each further one", async () => {
    const { proxy } = await setUp(40);
    const socket = await dial(proxy);
    const first = await roundTrip(socket);
    const second = await roundTrip(socket);
    expect(first).toBeGreaterThan(158);
    expect(first).toBeLessThan(400);
    expect(second).toBeGreaterThan(78);
    expect(second).toBeLessThan(300);
    proxy.setDelay(0);
    expect(await roundTrip(socket)).toBeLessThan(78);
  });

  it.each([0, 20])("carries bytes in order, both ways, and ends them (delay %i)", async (delay) => {
    const { proxy } = await setUp(delay);
    const socket = await dial(proxy);
    const sent = Buffer.alloc(8 * 1024 * 1024);
    for (let at = 0; at < sent.length; at += 4) sent.writeUInt32BE(at, at);
    socket.end(sent);
    const chunks: Buffer[] = [];
    for await (const chunk of socket) chunks.push(chunk);
    expect(Buffer.concat(chunks).equals(sent)).toBe(true);
  });

  it("lets no delay limit the throughput", async () => {
    const total = 64 * 1024 * 1024;
    const { proxy } = await setUp(50, (socket) => socket.end(Buffer.alloc(total)));
    const begun = performance.now();
    const socket = await dial(proxy);
    let received = 0;
    for await (const chunk of socket) received += chunk.length;
    expect(received).toBe(total);
    // With a window of 64 KiB per 100 ms it would take 100 seconds.
    expect(performance.now() - begun).toBeLessThan(5_000);
  });

  it("limits the rate", async () => {
    const { proxy } = await setUp(0, (socket) => socket.end(Buffer.alloc(100_000)));
    proxy.rateLimit(200_000);
    const begun = performance.now();
    const socket = await dial(proxy);
    let received = 0;
    for await (const chunk of socket) received += chunk.length;
    expect(received).toBe(100_000);
    expect(performance.now() - begun).toBeGreaterThan(480);
    expect(performance.now() - begun).toBeLessThan(1_500);
  });

  it("resets both sides when it is cut", async () => {
    const { proxy, accepted } = await setUp(0);
    const socket = await dial(proxy);
    await roundTrip(socket);
    expect(proxy.connections).toBe(1);
    const failed = Promise.all([once(socket, "error"), once(accepted[0]!, "error")]);
    proxy.cut();
    expect((await failed).map(([error]) => error.code)).toEqual(["ECONNRESET", "ECONNRESET"]);
    expect(await roundTrip(await dial(proxy))).toBeGreaterThan(0);
    expect(proxy.connections).toBe(1);
  });

  it("loses everything in a black hole, and for good", async () => {
    const { proxy, accepted } = await setUp(0);
    const old = await dial(proxy);
    await roundTrip(old);
    proxy.blackhole(true);
    const meanwhile = await dial(proxy);
    const heard: string[] = [];
    for (const socket of [old, meanwhile])
      socket.on("data", () => heard.push("data")).on("end", () => heard.push("end"));
    accepted[0]!.on("end", () => heard.push("server end"));
    old.write("lost");
    meanwhile.write("lost");
    accepted[0]!.write("lost");
    proxy.blackhole(false);
    // A later connection's two round trips leave enough time for anything that might still come.
    const fresh = await dial(proxy);
    await roundTrip(fresh);
    old.end("lost");
    await roundTrip(fresh);
    expect(heard).toEqual([]);
    expect(accepted).toHaveLength(2);
  });

  it("holds everything back while it is stalled", async () => {
    const { proxy } = await setUp(0);
    const socket = await dial(proxy);
    await roundTrip(socket);
    proxy.stall(true);
    const answered = roundTrip(socket);
    const winner = await Promise.race([answered, new Promise((resolve) => setTimeout(() => resolve("silence"), 50))]);
    expect(winner).toBe("silence");
    proxy.stall(false);
    expect(await answered).toBeGreaterThan(40);
  });

  it("refuses connections, and takes them again on the same port", async () => {
    const { proxy } = await setUp(0);
    const { port } = proxy;
    const old = await dial(proxy);
    await roundTrip(old);
    await proxy.refuse(true);
    const refused = connect(port, proxy.host);
    const [error] = await once(refused, "error");
    expect(error.code).toBe("ECONNREFUSED");
    await roundTrip(old);
    await proxy.refuse(false);
    expect(proxy.port).toBe(port);
    await roundTrip(await dial(proxy));
  });
});

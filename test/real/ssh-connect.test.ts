import { once } from "node:events";
import { connect as connectTcp, createServer, type Server, type Socket } from "node:net";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { connect, output, resolve } from "../ssh/support.ts";
import { startDelayingProxy } from "../support/delaying-proxy.ts";
import { describeReal } from "../support/requirements.ts";
import { freePort, type Sshd, startSshd } from "../support/sshd.ts";

async function listen(onConnection: (socket: Socket) => void): Promise<number> {
  const sockets = new Set<Socket>();
  const server: Server = createServer((socket) => {
    sockets.add(socket.on("error", () => {}));
    onConnection(socket);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return (server.address() as { port: number }).port;
}

describeReal("connecting", () => {
  let sshd: Sshd;
  beforeAll(async () => {
    sshd = await startSshd();
  });
  afterAll(() => sshd?.stop());

  const failureOf = async (extra: Record<string, unknown>) => {
    const attempt = connect(await resolve(sshd.options(extra)));
    return attempt.catch((error: unknown) => error);
  };

  it("says that a port refuses connections", async () => {
    const port = await freePort();
    expect(await failureOf({ port })).toMatchObject({
      code: "connection-refused",
      message: `127.0.0.1 refuses connections on port ${port}`,
    });
  });

  it("says that a host name is unknown", async () => {
    expect(await failureOf({ host: "build.invalid" })).toMatchObject({
      code: "host-unknown",
      message: expect.stringContaining('"build.invalid"'),
    });
  });

  it("has one deadline for a server that accepts and says nothing", async () => {
    const port = await listen((socket) => socket.resume());
    const begun = performance.now();
    expect(await failureOf({ port, connectTimeoutMs: 300 })).toMatchObject({
      code: "connection-timeout",
      message: expect.stringMatching(/did not answer within 300 ms/),
    });
    expect(performance.now() - begun).toBeLessThan(2_000);
  });

  it("has the same deadline for a server that stops in the middle of the handshake", async () => {
    const port = await listen((socket) => socket.write("SSH-2.0-OpenSSH_9.2\r\n"));
    expect(await failureOf({ port, connectTimeoutMs: 300 })).toMatchObject({ code: "connection-timeout" });
  });

  it("has the same deadline for a link that dies while it logs in", async () => {
    const proxy = await startDelayingProxy({ target: sshd, oneWayDelayMs: 50 });
    onTestFinished(() => proxy.stop());
    const attempt = failureOf({
      port: proxy.port,
      connectTimeoutMs: 1_000,
      hostKeyPolicy: "accept-new",
      knownHostsFile: `${sshd.folder}/kh`,
    });
    await expect.poll(() => proxy.connections).toBe(1);
    proxy.stall(true);
    expect(await attempt).toMatchObject({ code: "connection-timeout" });
  });

  it.each([
    ["closes at once", (socket: Socket) => socket.end()],
    ["resets", (socket: Socket) => socket.resetAndDestroy()],
    ["speaks something else", (socket: Socket) => socket.end("HTTP/1.1 400 Bad Request\r\n\r\n")],
    ["closes after its banner", (socket: Socket) => socket.end("SSH-2.0-OpenSSH_9.2\r\n")],
    [
      "sends garbage after its banner",
      (socket: Socket) => socket.end(`SSH-2.0-OpenSSH_9.2\r\n${"\xff".repeat(4_000)}`),
    ],
  ])("fails when the server %s", async (_, misbehave) => {
    const port = await listen(misbehave);
    expect(await failureOf({ port })).toMatchObject({
      code: "connection-failed",
      message: expect.stringContaining(`127.0.0.1:${port}`),
    });
  });

  it.each([
    ["Exceeded MaxStartups", /turns connections away at this time \(it said: Exceeded MaxStartups\)$/, /MaxStartups/],
    [
      "Not allowed at this time",
      /turns connections away .* \(it said: Not allowed at this time\)$/,
      /PerSourcePenalties/,
    ],
    [
      "\x1b[2JHTTP/1.1 400 Bad",
      /does not speak SSH \(it said: HTTP\/1\.1 400 Bad\)$/,
      /an SSH server listens on that port/,
    ],
    ["", /accepted the connection and dropped it without a word$/, /firewall, MaxStartups or PerSourcePenalties/],
  ])("says what a server said that hung up before its version: %j", async (line, message, remedy) => {
    const port = await listen((socket) => socket.end(line === "" ? "" : `${line}\r\n`));
    expect(await failureOf({ port })).toMatchObject({
      code: "connection-failed",
      message: expect.stringMatching(message),
      remedy: expect.stringMatching(remedy),
    });
  });

  it("says so when a server has as many logins under way as it takes", async () => {
    const busy = await startSshd({ config: ["MaxStartups 1"] });
    const waiting = connectTcp(busy.port, "127.0.0.1");
    onTestFinished(async () => {
      waiting.destroy();
      await busy.stop();
    });
    await once(waiting, "data");
    const attempt = connect(await resolve(busy.options()));
    await expect(attempt).rejects.toMatchObject({
      code: "connection-failed",
      message: expect.stringMatching(/turns connections away at this time \(it said: /),
    });
  });

  it("gives up when it is told to", async () => {
    const port = await listen(() => {});
    const target = await resolve(sshd.options({ port }));
    const abort = new AbortController();
    const attempt = connect(target, { signal: abort.signal });
    abort.abort();
    await expect(attempt).rejects.toMatchObject({
      code: "connection-failed",
      message: expect.stringContaining("given up"),
    });
    await expect(connect(target, { signal: abort.signal })).rejects.toMatchObject({ code: "connection-failed" });
  });

  it("logs one line without secrets", async () => {
    const log: string[] = [];
    await connect(await resolve(sshd.options()), { log: (line) => log.push(line) });
    expect(log).toEqual([
      expect.stringMatching(
        /^connected to \S+@127\.0\.0\.1:\d+ with \S+id_ed25519 \(ssh-ed25519 SHA256:\S+\) in \d+ ms$/,
      ),
    ]);
  });

  it.each([
    [{ hostKeyAlgorithms: [] }, "HostKeyAlgorithms"],
    [{ certificateFiles: ["/cert"] }, "CertificateFile"],
    [{ knownHostsCommand: "/bin/kh" }, "KnownHostsCommand"],
    [{ proxyUseFdpass: true, proxyCommand: "nc -F %h %p" }, "ProxyUseFdpass"],
    [{ pkcs11Provider: "/lib/p11.so" }, "PKCS11Provider"],
    [{ prefersGssapi: true }, "GSSAPI"],
  ])("refuses what it cannot do instead of leaving it out: %j", async (changes, named) => {
    const mark = sshd.log().length;
    await expect(connect(await resolve(sshd.options({ carrier: "ssh2" }), changes))).rejects.toMatchObject({
      code: "option-invalid",
      message: expect.stringContaining(named),
    });
    expect(sshd.log().slice(mark)).not.toContain("Connection from");
  });

  it("runs commands and reports how they ended", async () => {
    const carrier = await connect(await resolve(sshd.options()));
    expect(await output(carrier, "echo out; echo err >&2; exit 3")).toEqual({
      stdout: "out\n",
      stderr: "err\n",
      exit: { code: 3, signal: null },
    });
    expect(await output(carrier, "kill -TERM $$")).toMatchObject({ exit: { code: null, signal: "SIGTERM" } });
    const cat = await carrier.run("cat; echo done");
    cat.stdin.end("typed\n");
    cat.stderr.resume();
    const chunks: Buffer[] = [];
    for await (const chunk of cat.stdout) chunks.push(chunk);
    expect(Buffer.concat(chunks).toString()).toBe("typed\ndone\n");
    expect(await cat.exit).toEqual({ code: 0, signal: null });
  });

  it("reports the exit of a command that closes its output long before", async () => {
    const carrier = await connect(await resolve(sshd.options()));
    const command = await carrier.run("echo out; exec >&- 2>&-; read line; exit 7");
    command.stderr.resume();
    for await (const chunk of command.stdout) expect(String(chunk)).toBe("out\n");
    expect(command.stdout.destroyed).toBe(true);
    command.stdin.end("go on\n");
    expect(await command.exit).toEqual({ code: 7, signal: null });
  });

  it("lets go of a command", async () => {
    const carrier = await connect(await resolve(sshd.options()));
    const command = await carrier.run("exec sleep 5");
    command.close();
    expect(await command.exit).toEqual({ code: null, signal: null });
  });

  it("never reports an exit that it has not seen", async () => {
    const carrier = await connect(await resolve(sshd.options()));
    const command = await carrier.run("echo ready; exec cat");
    command.stderr.resume();
    await once(command.stdout, "data");
    sshd.killSessions();
    expect(await command.exit).toEqual({ code: null, signal: null });
    expect(await carrier.closed).toMatchObject({ code: "connection-lost" });
  });

  it("says when the server starts no more commands", async () => {
    const small = await startSshd({ config: ["MaxSessions 0"] });
    onTestFinished(() => small.stop());
    const carrier = await connect(await resolve(small.options()));
    await expect(carrier.run("true")).rejects.toMatchObject({ code: "session-refused" });
  });
});

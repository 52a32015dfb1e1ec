import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { startEmbeddedServer } from "../../src/cli/demo/embedded-server.ts";
import { makeKeyPair } from "../../src/cli/demo/keys.ts";
import type { Carrier } from "../../src/ssh/carrier.ts";
import { connect, output, readAll, resolve, temporaryFolder } from "../ssh/support.ts";

/** The demo's SSH server, through the runtime's own carrier. */

const MEBIBYTE = 1024 * 1024;

async function connectTo(changes: { user?: string; identityFile?: string } = {}): Promise<Carrier> {
  const folder = temporaryFolder();
  const userKey = makeKeyPair();
  const hostKey = makeKeyPair();
  const server = await startEmbeddedServer({
    user: "demo",
    userKey: userKey.publicKey,
    hostKey: hostKey.privateText,
    home: folder,
    env: { HOME: folder, PATH: process.env.PATH },
  });
  onTestFinished(() => server.stop());
  const write = (name: string, text: string) => {
    writeFileSync(join(folder, name), text, { mode: 0o600 });
    return join(folder, name);
  };
  const options = {
    host: "127.0.0.1",
    port: server.port,
    user: "demo",
    identityFile: write("key", userKey.privateText),
    identitiesOnly: true,
    knownHostsFile: write("known_hosts", `[127.0.0.1]:${server.port} ${hostKey.publicLine}\n`),
    sshConfigFile: write("ssh_config", ""),
    ...changes,
  };
  return await connect(await resolve(options));
}

/** A unix socket server. Returns its path. */
async function serve(onConnection: (socket: Socket) => void): Promise<string> {
  const path = join(temporaryFolder(), "socket");
  const server = createServer({ allowHalfOpen: true }, onConnection).listen(path);
  await once(server, "listening");
  onTestFinished(() => {
    server.close();
  });
  return path;
}

it("runs commands with both outputs and their exit status", async () => {
  const carrier = await connectTo();
  expect(await output(carrier, "echo out; echo err >&2; exit 3")).toEqual({
    stdout: "out\n",
    stderr: "err\n",
    exit: { code: 3, signal: null },
  });
  expect((await output(carrier, "kill -TERM $$")).exit).toEqual({ code: null, signal: "SIGTERM" });
});

it("passes input on to its end", async () => {
  const command = await (await connectTo()).run("cat");
  const input = randomBytes(5 * MEBIBYTE);
  command.stdin.end(input);
  expect((await readAll(command.stdout)).equals(input)).toBe(true);
  expect(await command.exit).toEqual({ code: 0, signal: null });
});

it("joins streams to unix sockets, megabytes both ways and to their ends", async () => {
  const path = await serve((socket) => {
    socket.pipe(socket);
  });
  const stream = await (await connectTo()).openStream(path);
  const bytes = randomBytes(8 * MEBIBYTE);
  stream.end(bytes);
  expect((await readAll(stream)).equals(bytes)).toBe(true);
});

it("refuses a stream to where nobody listens", async () => {
  const carrier = await connectTo();
  await expect(carrier.openStream(join(temporaryFolder(), "nobody"))).rejects.toMatchObject({ code: "stream-refused" });
});

it("lets nobody in but its one account with its one key", async () => {
  await expect(connectTo({ user: "root" })).rejects.toMatchObject({ code: "authentication-failed" });
  const other = join(temporaryFolder(), "other");
  writeFileSync(other, makeKeyPair().privateText, { mode: 0o600 });
  await expect(connectTo({ identityFile: other })).rejects.toMatchObject({ code: "authentication-failed" });
});

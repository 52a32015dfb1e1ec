import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import ssh2, { type Connection } from "ssh2";
import { describe, expect, it, onTestFinished } from "vitest";
import { HostKeyGuard } from "../../src/ssh/host-key.ts";
import { connect, output, publicKey, resolve, temporaryFolder } from "./support.ts";

/** What no OpenSSH server does: a server of our own that knows everybody by their address. */
async function serverWith(onReady: (client: Connection) => void): Promise<Record<string, unknown>> {
  const hostKey = ssh2.utils.generateKeyPairSync("ecdsa", { bits: 256 });
  const server = new ssh2.Server({ hostKeys: [hostKey.private] }, (client) => {
    client.on("error", () => {});
    client.on("authentication", (context) =>
      context.method === "none" ? context.accept() : context.reject(["publickey"]),
    );
    client.on("ready", () => onReady(client));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const { port } = server.address() as { port: number };
  const folder = temporaryFolder();
  const knownHostsFile = join(folder, "known_hosts");
  const sshConfigFile = join(folder, "config");
  writeFileSync(knownHostsFile, `[127.0.0.1]:${port} ${hostKey.public}\n`);
  writeFileSync(sshConfigFile, "IdentityFile none\n");
  return { host: "127.0.0.1", port, user: "anybody", knownHostsFile, sshConfigFile };
}

describe("Ssh2Carrier with another server than OpenSSH", () => {
  it("logs in without a key where the server asks for none, and tells a prohibition from a failure", async () => {
    const log: string[] = [];
    const carrier = await connect(await resolve(await serverWith(() => {})), { log: (line) => log.push(line) });
    expect(log).toEqual([expect.stringContaining("with no key")]);
    await expect(carrier.openStream("/socket")).rejects.toMatchObject({ code: "forwarding-refused" });
    await expect(carrier.run("true")).rejects.toMatchObject({ code: "session-refused" });
  });

  it("opens streams, and reports a socket that does not answer", async () => {
    const options = await serverWith((client) => {
      client.on("openssh.streamlocal", (accept, reject, info) => {
        if (info.socketPath === "/echo") {
          const channel = accept();
          channel.pipe(channel);
        } else {
          reject();
        }
      });
    });
    const carrier = await connect(await resolve(options));
    await expect(carrier.openStream("/silent")).rejects.toMatchObject({ code: "stream-refused" });
    const stream = await carrier.openStream("/echo");
    stream.write("hello");
    const [answer] = await once(stream, "data");
    expect(String(answer)).toBe("hello");
  });

  it("takes a command that ends without a status for one whose end nobody has seen", async () => {
    const options = await serverWith((client) => {
      client.on("session", (accept) => {
        accept().on("exec", (acceptCommand) => acceptCommand().end("some output"));
      });
    });
    const carrier = await connect(await resolve(options));
    expect(await output(carrier, "anything")).toEqual({
      stdout: "some output",
      stderr: "",
      exit: { code: null, signal: null },
    });
  });
});

describe("HostKeyGuard", () => {
  it("lets no connection change its key, whatever is known or accepted", async () => {
    const folder = temporaryFolder();
    const [first, second] = [publicKey(), publicKey()];
    writeFileSync(join(folder, "config"), "");
    writeFileSync(join(folder, "kh"), `box ${first.line}\nbox ${second.line}\n`);
    const options = {
      host: "box",
      knownHostsFile: join(folder, "kh"),
      sshConfigFile: join(folder, "config"),
      hostKeyPolicy: "accept-new",
    };
    const guard = new HostKeyGuard(await resolve(options));
    expect(guard.knownTypes).toEqual(["ssh-ed25519"]);
    expect(guard.refusal(first.blob)).toBeUndefined();
    expect(guard.refusal(first.blob)).toBeUndefined();
    expect(guard.refusal(second.blob)).toMatchObject({ code: "host-key-changed" });
  });
});

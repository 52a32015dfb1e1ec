import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { connect as connectTcp, createServer } from "node:net";
import { join, resolve as resolvePath } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import type { SshTarget } from "../../src/ssh/target.ts";
import { connect, output, resolve, temporaryFolder } from "../ssh/support.ts";
import { processesWith, untilGone } from "../support/processes.ts";
import { describeReal } from "../support/requirements.ts";
import { startSshAgent } from "../support/ssh-agent.ts";
import { freePort, generateKey, type Sshd, startSshd } from "../support/sshd.ts";

/** Connections that the system's ssh makes: what it is told, what it reads by itself, and what its failures mean. */
describeReal("the ssh program", () => {
  let sshd: Sshd;
  beforeAll(async () => {
    sshd = await startSshd();
  });
  afterAll(() => sshd?.stop());

  function write(text: string, name = "file"): string {
    const path = join(temporaryFolder(), name);
    writeFileSync(path, text, { mode: 0o600 });
    return path;
  }
  const raw = (extra: Record<string, unknown> = {}) => sshd.options({ carrier: "openssh", ...extra });
  const failureOf = async (options: Record<string, unknown>, changes: Partial<SshTarget> = {}) =>
    connect(await resolve(options, changes)).then(
      () => "connected",
      (error: unknown) => error,
    );
  const worksOver = async (options: Record<string, unknown>) => {
    const carrier = await connect(await resolve(options));
    expect(await output(carrier, "echo works")).toMatchObject({ stdout: "works\n", exit: { code: 0 } });
    return carrier.kind;
  };

  describe("fails with", () => {
    const key = (file: string) => readFileSync(file, "utf8").trim();

    it("host-key-unknown and the fingerprint, and files nothing", async () => {
      const knownHostsFile = write("");
      expect(await failureOf(raw({ knownHostsFile }))).toMatchObject({
        code: "host-key-unknown",
        message: expect.stringMatching(/127\.0\.0\.1:\d+ is not known: ssh-ed25519 SHA256:\S{43} /),
      });
      expect(readFileSync(knownHostsFile, "utf8")).toBe("");
      expect(await worksOver(raw({ knownHostsFile, hostKeyPolicy: "accept-new" }))).toBe("openssh");
      expect(await worksOver(raw({ knownHostsFile }))).toBe("openssh");
    });

    it.each(["strict", "accept-new"])(
      "host-key-changed and the line that has another, with %s",
      async (hostKeyPolicy) => {
        const other = generateKey(join(temporaryFolder(), "other"), "ed25519");
        const knownHostsFile = write(`# first\n[127.0.0.1]:${sshd.port} ${key(`${other}.pub`)}\n`);
        expect(await failureOf(raw({ knownHostsFile, hostKeyPolicy }))).toMatchObject({
          code: "host-key-changed",
          message: expect.stringMatching(
            new RegExp(`presents ssh-ed25519 SHA256:\\S{43}, ${knownHostsFile}:2 has another`),
          ),
        });
      },
    );

    it("host-key-revoked", async () => {
      const knownHostsFile = write(`@revoked * ${sshd.hostPublicKeys[0]}\n`);
      for (const hostKeyPolicy of ["strict", "accept-new"]) {
        expect(await failureOf(raw({ knownHostsFile, hostKeyPolicy }))).toMatchObject({ code: "host-key-revoked" });
      }
    });

    it("authentication-failed, what was offered, and what the server would accept", async () => {
      const identityFile = generateKey(join(temporaryFolder(), "stranger"), "ed25519");
      expect(await failureOf(raw({ identityFile }))).toMatchObject({
        code: "authentication-failed",
        message: expect.stringMatching(/stranger ED25519 SHA256:\S+.*would accept publickey,/),
      });
    });

    it("authentication-failed when the server has had enough attempts", async () => {
      const strict = await startSshd({ config: ["MaxAuthTries 1"] });
      onTestFinished(() => strict.stop());
      const identityFile = generateKey(join(temporaryFolder(), "stranger"), "ed25519");
      const options = strict.options({ carrier: "openssh", identityFile });
      expect(await failureOf(options)).toMatchObject({ code: "authentication-failed" });
    });

    it("connection-refused, also by a jump", async () => {
      const port = await freePort();
      expect(await failureOf(raw({ port }))).toMatchObject({
        code: "connection-refused",
        message: `127.0.0.1 refuses connections on port ${port}`,
      });
      expect(await failureOf(raw({ proxyJump: `127.0.0.1:${port}` }))).toMatchObject({
        code: "connection-refused",
        message: `127.0.0.1 refuses connections on port ${port}`,
      });
    });

    it("what a jump reports of the way from there", async () => {
      const port = await freePort();
      const jump = [
        "Host jump",
        "HostName 127.0.0.1",
        `Port ${sshd.port}`,
        `UserKnownHostsFile ${sshd.knownHostsFile}`,
      ];
      const sshConfigFile = write([...jump, "Host *", `IdentityFile ${sshd.identityFile}`].join("\n"));
      expect(await failureOf(raw({ sshConfigFile, proxyJump: "jump", port }))).toMatchObject({
        code: "connection-refused",
        message: `127.0.0.1 refuses connections on port ${port}`,
      });
      expect(await failureOf(raw({ sshConfigFile, proxyJump: "jump", host: "inner.invalid" }))).toMatchObject({
        code: "host-unknown",
        message: 'The host name "inner.invalid" cannot be resolved',
      });
      const stranger = generateKey(join(temporaryFolder(), "stranger"), "ed25519");
      const other = write([...jump, `IdentityFile ${stranger}`, "IdentitiesOnly yes"].join("\n"));
      expect(await failureOf(raw({ sshConfigFile: other, proxyJump: "jump" }))).toMatchObject({
        code: "authentication-failed",
        message: expect.stringContaining("a host on the way to"),
      });
    });

    it("what ssh means, whatever a banner says", async () => {
      const Banner = write(
        "ssh: connect to us: Connection refused\nHost key verification timed out: Permission denied\n",
      );
      const strict = await startSshd({ config: [`Banner ${Banner}`] });
      onTestFinished(() => strict.stop());
      const identityFile = generateKey(join(temporaryFolder(), "stranger"), "ed25519");
      const options = strict.options({ carrier: "openssh" });
      expect(await failureOf({ ...options, identityFile })).toMatchObject({ code: "authentication-failed" });
      const carrier = await connect(await resolve(options));
      strict.killSessions();
      const reason = await carrier.closed;
      expect(reason).toMatchObject({ code: "connection-lost" });
      expect(reason?.message).not.toMatch(/refused|verification/);
    });

    it("host-unknown, also for a jump", async () => {
      expect(await failureOf(raw({ host: "build.invalid" }))).toMatchObject({
        code: "host-unknown",
        message: 'The host name "build.invalid" cannot be resolved',
      });
      expect(await failureOf(raw({ proxyJump: "jump.invalid" }))).toMatchObject({
        code: "host-unknown",
        message: 'The host name "jump.invalid" cannot be resolved',
      });
    });

    it("host-key-unknown for a jump that is not known, and says which", async () => {
      const jump = ["Host jump", "HostName 127.0.0.1", `Port ${sshd.port}`, "UserKnownHostsFile none"];
      const sshConfigFile = write(`${jump.join("\n")}\nIdentityFile ${sshd.identityFile}\n`);
      expect(await failureOf(raw({ sshConfigFile, proxyJump: "jump" }))).toMatchObject({
        code: "host-key-unknown",
        message: expect.stringContaining(
          `on the way to ${sshd.user}@127.0.0.1:${sshd.port} (ProxyJump jump) is not known`,
        ),
      });
    });

    it("connection-failed and the last words of a ProxyCommand", async () => {
      const sshConfigFile = write("Host *\nProxyCommand sh -c 'echo no way >&2; exit 1'\n");
      expect(await failureOf(raw({ sshConfigFile }))).toMatchObject({
        code: "connection-failed",
        message: expect.stringContaining("no way"),
      });
    });

    it("connection-timeout, and leaves neither ssh nor its ProxyCommand behind", async () => {
      const seconds = String(100_000 + Math.floor(Math.random() * 100_000));
      const sshConfigFile = write(`Host *\nProxyCommand sleep ${seconds}\n`);
      expect(await failureOf(raw({ sshConfigFile, connectTimeoutMs: 300 }))).toMatchObject({
        code: "connection-timeout",
        message: expect.stringContaining("300 ms"),
      });
      await untilGone(...processesWith(sshConfigFile), ...processesWith(`sleep ${seconds}`));
    });

    it("connection-failed when it is given up", async () => {
      const server = createServer().listen(0, "127.0.0.1");
      onTestFinished(() => void server.close());
      await once(server, "listening");
      const { port } = server.address() as { port: number };
      const target = await resolve(raw({ port }));
      const abort = new AbortController();
      const attempt = connect(target, { signal: abort.signal });
      server.once("connection", () => abort.abort());
      await expect(attempt).rejects.toMatchObject({
        code: "connection-failed",
        message: expect.stringContaining("given up"),
      });
      await expect(connect(target, { signal: abort.signal })).rejects.toMatchObject({ code: "connection-failed" });
    });

    it("ssh-program-missing and the setting that needs it", async () => {
      const target = await resolve(sshd.options());
      const program = { ...target.program, env: { PATH: temporaryFolder() } };
      expect(await failureOf(sshd.options(), { program, certificateFiles: ["/c"] })).toMatchObject({
        code: "ssh-program-missing",
        message: expect.stringContaining("CertificateFile"),
      });
      expect(await failureOf(raw(), { program })).toMatchObject({ code: "ssh-program-missing" });
      expect(await failureOf(sshd.options(), { program })).toBe("connected");
    });
  });

  it("tells how far it has come, and why it was chosen", async () => {
    const steps: string[] = [];
    const log: string[] = [];
    const target = await resolve(sshd.options({ sshConfigFile: write("CertificateFile /nonexistent\n") }));
    await connect(target, {
      trace: ({ step, detail }) => steps.push(`${step}: ${detail}`),
      log: (line) => log.push(line),
    });
    expect(steps).toEqual([
      expect.stringMatching(/^transport: 127\.0\.0\.1 by \/\S+\/ssh because of CertificateFile$/),
      expect.stringMatching(/^host-key: ssh-ed25519 SHA256:\S{43}$/),
      expect.stringMatching(/^login: \S+id_ed25519 ED25519 SHA256:\S{43} explicit$/),
    ]);
    expect(log).toEqual([expect.stringMatching(/^connected to \S+ by \S+ with \S+id_ed25519 .* in \d+ ms$/)]);
  });

  it("leaves no name of its control socket behind", async () => {
    const carrier = await connect(await resolve(raw()));
    const folder = process.env.PASEO_SSH_RUNTIME_DIR!;
    expect(execFileSync("ls", ["-A", folder], { encoding: "utf8" })).toBe("");
    const pids = processesWith(`${folder}/ssh-`);
    expect(pids.length).toBeGreaterThan(0);
    carrier.close();
    await untilGone(...pids);
  });

  it("is not led astray by what a person's ssh_config says for sessions", async () => {
    const folder = temporaryFolder();
    const port = await freePort();
    const sshConfigFile = write(
      [
        "Host *",
        "ControlMaster auto",
        `ControlPath ${folder}/control`,
        "ControlPersist yes",
        "RemoteCommand echo hijacked",
        "RequestTTY force",
        `LocalForward 127.0.0.1:${port} 127.0.0.1:9`,
        `RemoteForward ${folder}/remote ${folder}/none`,
        `DynamicForward 127.0.0.1:${await freePort()}`,
        "ExitOnForwardFailure yes",
        "PermitLocalCommand yes",
        `LocalCommand touch ${folder}/local-command`,
        "ForwardX11 yes",
        "ForwardAgent yes",
        "ForkAfterAuthentication yes",
        "SessionType subsystem",
        "StdinNull yes",
        "LogLevel QUIET",
        "BatchMode no",
        "StrictHostKeyChecking no",
        "VisualHostKey yes",
        "ServerAliveInterval 0",
        "Tunnel yes",
      ].join("\n"),
    );
    const carrier = await connect(await resolve(raw({ sshConfigFile })));
    expect(await output(carrier, "echo ours; echo $SSH_AUTH_SOCK; tty")).toMatchObject({
      stdout: "ours\n\nnot a tty\n",
    });
    expect(execFileSync("ls", ["-A", folder], { encoding: "utf8" })).toBe("");
    const socket = connectTcp(port, "127.0.0.1");
    expect(await once(socket, "error")).toMatchObject([{ code: "ECONNREFUSED" }]);
    const strict = await failureOf(raw({ sshConfigFile, knownHostsFile: write(""), hostKeyPolicy: "strict" }));
    expect(strict).toMatchObject({ code: "host-key-unknown" });
  });

  it("gets hold of options whose values have blanks, quotes and percent signs", async () => {
    const folder = temporaryFolder();
    const odd = join(folder, 'a "b" %h \\c');
    execFileSync("cp", ["-p", sshd.identityFile, odd]);
    execFileSync("cp", ["-p", sshd.knownHostsFile, `${odd} kh`]);
    expect(await worksOver(raw({ identityFile: odd, knownHostsFile: `${odd} kh` }))).toBe("openssh");
  });

  it("goes through two jumps, each with its own settings", async () => {
    const { port, identityFile, knownHostsFile } = sshd;
    const sshConfigFile = write(
      ["first", "second"]
        .flatMap((name) => [
          `Host ${name}`,
          "HostName 127.0.0.1",
          `Port ${port}`,
          `UserKnownHostsFile ${knownHostsFile}`,
        ])
        .concat("Host *", `IdentityFile ${identityFile}`)
        .join("\n"),
    );
    const logins = () => sshd.log().match(/Accepted publickey/g)?.length ?? 0;
    const before = logins();
    expect(await worksOver(raw({ sshConfigFile, proxyJump: "first,second" }))).toBe("openssh");
    expect(logins()).toBe(before + 3);
  });

  it("offers the agent of the caller to commands that are to have it, and to no others", async () => {
    const agent = await startSshAgent();
    onTestFinished(() => agent.stop());
    agent.add(sshd.identityFile);
    const carrier = await connect(await resolve(raw({ forwardAgent: true })), { authSock: agent.socket });
    expect(await output(carrier, "echo $SSH_AUTH_SOCK")).toMatchObject({ stdout: "\n" });
    const command = await carrier.run("ssh-add -l", { forwardAgent: true });
    command.stderr.resume();
    const chunks: Buffer[] = [];
    for await (const chunk of command.stdout) chunks.push(chunk);
    expect(Buffer.concat(chunks).toString()).toContain("ed25519 test key");
  });

  describe("is chosen for", () => {
    function signed(publicKey: string, ...args: string[]): string {
      const authority = generateKey(join(temporaryFolder(), "authority"), "ed25519");
      execFileSync("ssh-keygen", ["-q", "-s", authority, "-I", "test", ...args, publicKey], { stdio: "ignore" });
      return readFileSync(`${authority}.pub`, "utf8").trim();
    }

    it("a certificate of a user, configured or beside its key; ssh2 refuses it by name", async () => {
      const identityFile = generateKey(join(temporaryFolder(), "id"), "ed25519");
      const trusted = write(`${signed(`${identityFile}.pub`, "-n", sshd.user)}\n`);
      const host = await startSshd({ config: [`TrustedUserCAKeys ${trusted}`] });
      onTestFinished(() => host.stop());
      expect(await worksOver(host.options({ identityFile }))).toBe("openssh");
      expect(await failureOf(host.options({ identityFile, carrier: "ssh2" }))).toMatchObject({
        code: "option-invalid",
        message: expect.stringContaining(`${identityFile}-cert.pub`),
      });

      const elsewhere = join(temporaryFolder(), "certificate");
      execFileSync("mv", [`${identityFile}-cert.pub`, elsewhere]);
      expect(await failureOf(host.options({ identityFile }))).toMatchObject({ code: "authentication-failed" });
      const sshConfigFile = write(`CertificateFile ${elsewhere}\n`);
      expect(await worksOver(host.options({ identityFile, sshConfigFile }))).toBe("openssh");
    });

    it("a host that only a certificate authority vouches for", async () => {
      const hostKey = generateKey(join(temporaryFolder(), "host"), "ed25519");
      const authority = signed(`${hostKey}.pub`, "-h", "-n", "127.0.0.1");
      const config = [`HostKey ${hostKey}`, `HostCertificate ${hostKey}-cert.pub`];
      const host = await startSshd({ config, hostKeyTypes: [] });
      onTestFinished(() => host.stop());
      const options = (line: string, extra = {}) => host.options({ knownHostsFile: write(`${line}\n`), ...extra });
      expect(await worksOver(options(`@cert-authority [127.0.0.1]:* ${authority}`))).toBe("openssh");
      const stranger = generateKey(join(temporaryFolder(), "stranger"), "ed25519");
      expect(await failureOf(options(`@cert-authority * ${readFileSync(`${stranger}.pub`, "utf8")}`))).toMatchObject({
        code: "host-key-unknown",
      });
      const plain = readFileSync(`${hostKey}.pub`, "utf8").trim();
      const both = `@cert-authority * ${authority}\n[127.0.0.1]:${host.port} ${plain}`;
      expect(await worksOver(options(both))).toBe("ssh2");
    });

    it("KnownHostsCommand", async () => {
      const sshConfigFile = write(`UserKnownHostsFile none\nKnownHostsCommand /bin/cat ${sshd.knownHostsFile}\n`);
      const { knownHostsFile: _file, ...options } = sshd.options({ sshConfigFile });
      expect(await worksOver(options)).toBe("openssh");
    });

    it("ProxyUseFdpass", async () => {
      const program = resolvePath(import.meta.dirname, "../fixtures/pass-descriptor.mjs");
      const command = `env NODE_CHANNEL_FD=1 ${process.execPath} ${program} %h %p`;
      const sshConfigFile = write(`Host *\nProxyCommand ${command}\nProxyUseFdpass yes\n`);
      expect(await worksOver(sshd.options({ sshConfigFile }))).toBe("openssh");
    });

    it.each([
      ["PKCS11Provider /nonexistent.so", "PKCS11Provider"],
      ["GSSAPIAuthentication yes\nPreferredAuthentications gssapi-with-mic,publickey", "GSSAPI"],
    ])("%j", async (lines, named) => {
      const options = sshd.options({ sshConfigFile: write(`${lines}\n`) });
      expect(await worksOver(options)).toBe("openssh");
      expect(await failureOf({ ...options, carrier: "ssh2" })).toMatchObject({
        code: "option-invalid",
        message: expect.stringContaining(named),
      });
    });

    it("a FIDO key that is configured, and not for GSSAPI that a distribution allows", async () => {
      const folder = temporaryFolder();
      // ssh-keygen cannot make one without the device; its public half says what it is.
      const type = "sk-ssh-ed25519@openssh.com";
      const strings = [type, "k".repeat(32), "ssh:"].map((text) => {
        const length = Buffer.alloc(4);
        length.writeUInt32BE(text.length);
        return Buffer.concat([length, Buffer.from(text)]);
      });
      writeFileSync(join(folder, "id_sk.pub"), `${type} ${Buffer.concat(strings).toString("base64")} key\n`);
      const identityFile = join(folder, "id_sk");
      expect(await failureOf(sshd.options({ identityFile, carrier: "ssh2" }))).toMatchObject({
        code: "option-invalid",
        message: expect.stringContaining(`FIDO key ${identityFile}`),
      });
      expect(await worksOver(sshd.options({ sshConfigFile: write("GSSAPIAuthentication yes\n") }))).toBe("ssh2");
      expect(existsSync(identityFile)).toBe(false);
    });
  });
});

import { once } from "node:events";
import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve as resolvePath } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { connectSsh2 } from "../../src/ssh/ssh2-connect.ts";
import { RuntimeError } from "../../src/wire/errors.ts";
import { connect, output, resolve, temporaryFolder } from "../ssh/support.ts";
import { JumpHosts } from "../support/jump-hosts.ts";
import { untilGone } from "../support/processes.ts";
import { describeReal } from "../support/requirements.ts";

const PIPE = `${process.execPath} ${resolvePath(import.meta.dirname, "../fixtures/tcp-pipe.mjs")}`;

describeReal("a ProxyCommand", () => {
  let hosts: JumpHosts;
  beforeAll(async () => {
    hosts = await JumpHosts.start({ inner: {} });
  });
  afterAll(() => hosts?.stop());

  const targetOf = (ProxyCommand: string, options: Record<string, unknown> = {}) =>
    resolve({ host: "inner", sshConfigFile: hosts.config({ inner: { ProxyCommand } }), ...options });
  const failureOf = async (command: string, options: Record<string, unknown> = {}) => {
    const error = await targetOf(command, options)
      .then((target) => connect(target))
      .catch((caught: unknown) => caught);
    if (!(error instanceof RuntimeError)) throw new Error("It did not fail", { cause: error });
    return error;
  };
  /** A program that a command runs, so that no shell stands between it and us. */
  const script = (...lines: string[]) => {
    const file = join(temporaryFolder(), "script");
    writeFileSync(file, ["#!/bin/sh", ...lines, ""].join("\n"));
    chmodSync(file, 0o700);
    return file;
  };
  const pidIn = async (file: string) => {
    await expect.poll(() => existsSync(file) && readFileSync(file, "utf8").endsWith("\n")).toBe(true);
    return readFileSync(file, "utf8").trim().split(/\s+/).map(Number);
  };

  it("carries the connection", async () => {
    const carrier = await connect(await targetOf(`${PIPE} %h %p`));
    const big = await output(carrier, "head -c 8000000 /dev/zero");
    expect(big.stdout.length).toBe(8_000_000);
    expect(await output(carrier, "cat >/dev/null; echo done", Buffer.alloc(4_000_000))).toMatchObject({
      stdout: "done\n",
    });
  });

  it("gets what its tokens stand for, as one shell command with quotes and variables", async () => {
    const { user, port } = hosts.get("inner");
    const file = join(temporaryFolder(), "seen");
    const program = script(`printf '%s\\n' "$@" > ${file}`, `exec ${PIPE} 127.0.0.1 ${port}`);
    const env = { PATH: process.env.PATH!, HOME: "/nonexistent/caller" };
    const target = await targetOf(`${program} %h %p %r %n %k %% "two  words" "$HOME" "$SSH_AUTH_SOCK."`);
    await connect(target, { env, authSock: "/run/agent" });
    expect(readFileSync(file, "utf8").split("\n")).toEqual([
      ...["127.0.0.1", String(port), user, "inner", "inner", "%", "two  words"],
      ...["/nonexistent/caller", "/run/agent.", ""],
    ]);
    await connect(target, { env });
    expect(readFileSync(file, "utf8").split("\n").at(-2)).toBe(".");
  });

  it("is its own reason when it fails", async () => {
    expect(await failureOf(script("echo 'no route to bastion' >&2", "exit 3"))).toMatchObject({
      code: "proxy-failed",
      message: expect.stringMatching(
        /^The ProxyCommand of \S+@127\.0\.0\.1:\d+ ended with exit status 3: no route to bastion$/,
      ),
      remedy: expect.stringContaining('"ssh inner"'),
    });
    expect(await failureOf(script("exit 4"))).toMatchObject({
      message: expect.stringMatching(/4 and gave no reason$/),
    });
    expect(await failureOf(script("kill -TERM $$"))).toMatchObject({
      code: "proxy-failed",
      message: expect.stringContaining("was ended by SIGTERM"),
    });
    expect(await failureOf("/nonexistent/proxy --token s3cret %h")).toMatchObject({
      code: "proxy-failed",
      message: expect.stringMatching(/exit status 127: .*\/nonexistent\/proxy/),
    });
    expect(await failureOf(script("exit 0"))).toMatchObject({ code: "connection-failed" });
  });

  it("is not shown, and what it says is shortened and cleaned", async () => {
    const noisy = script("i=0; while [ $i -lt 5000 ]; do echo noise-$i; i=$((i+1)); done >&2");
    const error = await failureOf(`${noisy} s3cret`);
    expect(error.toLine()).not.toContain("s3cret");
    expect(error.message).toContain("noise-4999");
    expect(error.message.length).toBeLessThan(1_200);
    const coloured = await failureOf(script("printf '\\033[31mred\\033[0m\\007\\n' >&2", "exit 1"));
    expect(coloured.message).toMatch(/exit status 1: red$/);
  });

  it("ends with its whole group when it says nothing in time", async () => {
    const file = join(temporaryFolder(), "pids");
    const command = script("echo 'waiting for a ticket' >&2", "sleep 600 &", `echo $$ $! > ${file}`, "wait");
    const error = await failureOf(command, { connectTimeoutMs: 500 });
    expect(error).toMatchObject({
      code: "connection-timeout",
      message: expect.stringContaining("the ProxyCommand said: waiting for a ticket"),
    });
    await untilGone(...(await pidIn(file)));
  });

  it("ends with the connection, even when it ignores that", async () => {
    const file = join(temporaryFolder(), "pids");
    const { port } = hosts.get("inner");
    const stubborn = script("trap '' HUP", `echo $$ > ${file}`, `${PIPE} 127.0.0.1 ${port}`, "sleep 600");
    const carrier = await connectSsh2(await targetOf(stubborn));
    carrier.close();
    expect(await carrier.closed).toBeUndefined();
    await untilGone(...(await pidIn(file)));
  });

  it("takes the connection along, with its reason", async () => {
    const file = join(temporaryFolder(), "pids");
    const { port } = hosts.get("inner");
    const fragile = script(
      "exec 3<&0",
      `${PIPE} 127.0.0.1 ${port} <&3 &`,
      `echo $! > ${file}`,
      "wait $!",
      "echo 'the ticket has expired' >&2",
      "exit 9",
    );
    const carrier = await connect(await targetOf(fragile));
    const command = await carrier.run("echo ready; exec cat");
    await once(command.stdout, "data");
    process.kill((await pidIn(file))[0]!, "SIGKILL");
    expect(await carrier.closed).toMatchObject({
      code: "connection-lost",
      message: expect.stringMatching(/exit status 9: (?:.*)?the ticket has expired/),
    });
  });

  it.each(["%x", "%"])("is refused when it has the token %s", async (token) => {
    expect(await failureOf(`${PIPE} %h %p ${token}`)).toMatchObject({
      code: "option-invalid",
      message: expect.stringContaining(token),
    });
  });

  it("is left out when the option says so, or ssh_config", async () => {
    const broken = script("exit 1");
    expect(await connect(await targetOf(broken, { proxyJump: "none" }))).toBeDefined();
    expect(await connect(await targetOf("none"))).toBeDefined();
  });
});

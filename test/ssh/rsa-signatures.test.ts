import ssh2, { type ParsedKey } from "ssh2";
import { expect, it } from "vitest";
import { SingleKeyAgent } from "../../src/ssh/agent-keys.ts";

/**
 * What ssh2 asks for follows what a server says that it knows; no server that can be started here knows SHA-1 alone, so
 * the question is asked directly.
 */
it.each([
  ["sha1", false],
  [undefined, false],
  ["sha256", true],
  ["sha512", true],
])("an RSA key that is to sign with %s: %s", async (hash, signs) => {
  const key = ssh2.utils.parseKey(ssh2.utils.generateKeyPairSync("rsa", { bits: 2048 }).private) as ParsedKey;
  const asked: unknown[] = [];
  const agent = new SingleKeyAgent(key, async (data, chosen) => {
    asked.push(chosen);
    return key.sign(data, chosen);
  });
  const data = Buffer.from("session");
  const answer = await new Promise<{ error?: Error | undefined; signature?: Buffer | undefined }>((resolve) => {
    const done = (error?: Error | null, signature?: Buffer) => resolve({ error: error ?? undefined, signature });
    if (hash === undefined) agent.sign(key, data, done);
    else agent.sign(key, data, { hash } as never, done);
  });
  expect(agent.signed).toBe(signs);
  if (signs) {
    expect(key.verify(data, answer.signature!, hash)).toBe(true);
  } else {
    expect(answer.error?.message).toBe(agent.problem);
    expect(agent.problem).toBe("is an RSA key, for which the server knows only signatures with SHA-1");
    expect(asked).toEqual([]);
  }
});

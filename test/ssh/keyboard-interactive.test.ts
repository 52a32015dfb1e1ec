import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { AuthContext, Connection, Prompt } from "ssh2";
import { expect, it } from "vitest";
import { Keychain } from "../../src/ssh/keychain.ts";
import { processesWith, untilGone } from "../support/processes.ts";
import { connect, keychainProgram, resolve, serverOfOurs, temporaryFolder } from "./support.ts";

/** Questions that no server of a test machine asks: one-time codes, several at once, visible ones, a new password. */

const PASSWORD = "open sesame";

const keychain = () =>
  new Keychain(
    {},
    { program: keychainProgram(`process.stdout.write(JSON.stringify({type:"secret",secret:"${PASSWORD}"}))`) },
  );

/**
 * A server with keyboard-interactive, which asks one round of questions after the other.
 * @returns what it was answered
 */
async function serverThatAsks(rounds: Prompt[][], methods = ["keyboard-interactive"]) {
  const answers: string[][] = [];
  const passwords: string[] = [];
  const options = await serverOfOurs((client) => {
    client.on("authentication", (context) => {
      if (context.method === "keyboard-interactive") ask(context, 0);
      else if (context.method === "password") onPassword(context);
      else context.reject(methods as never);
    });
  });
  function ask(context: AuthContext & { prompt?: unknown }, round: number): void {
    if (context.method !== "keyboard-interactive") return;
    const questions = rounds[round];
    if (questions === undefined) context.accept();
    else
      context.prompt(questions, "", (given) => {
        answers.push(given);
        if (given.length === questions.length && given.every((answer) => answer === PASSWORD)) ask(context, round + 1);
        else context.reject(methods as never);
      });
  }
  function onPassword(context: AuthContext): void {
    if (context.method !== "password") return;
    passwords.push(context.password);
    if (methods.includes("expired")) context.requestChange("Your password has expired", () => context.reject());
    else context.reject(methods as never);
  }
  return { target: await resolve(options), answers, passwords };
}

const hidden = (prompt: string): Prompt => ({ prompt, echo: false });

it.each(["Password: ", "(dev@devbox) Password: ", "dev's password:", "Passwort: ", "パスワード: "])(
  "answers %j with the password",
  async (question) => {
    const { target, answers } = await serverThatAsks([[hidden(question)]]);
    expect(await connect(target, { keychain: keychain() })).toBeDefined();
    expect(answers).toEqual([[PASSWORD]]);
  },
);

it("goes on where the server asks nothing", async () => {
  const { target } = await serverThatAsks([]);
  expect(await connect(target)).toBeDefined();
});

it.each([
  ["a one-time code", [hidden("Verification code: ")], '"Verification code:"'],
  ["a one-time password", [hidden("One-time password (OATH) for `dev': ")], '"One-time password (OATH) for `dev\':"'],
  ["two things at once", [hidden("Password: "), hidden("Code: ")], '"Password:" and "Code:"'],
  ["with an echo", [{ prompt: "Password: ", echo: true }], '"Password:"'],
  ["with control characters", [hidden("\x1b[2JToken\r\n: ")], '"Token :"'],
])("does not answer %s, and says what was asked", async (_name, questions, named) => {
  const { target, answers } = await serverThatAsks([questions]);
  const failure = await connect(target, { keychain: keychain() }).catch((error: unknown) => error);
  expect(failure).toMatchObject({
    code: "authentication-failed",
    remedy: expect.stringContaining(
      `keyboard-interactive, where the server asks ${named}, to which there is no stored answer`,
    ),
  });
  expect(answers).toEqual([[]]);
});

it("names the code that is asked for after the password", async () => {
  const { target, answers } = await serverThatAsks([[hidden("Password: ")], [hidden("Duo passcode: ")]]);
  const failure = await connect(target, { keychain: keychain() }).catch((error: unknown) => error);
  expect(failure).toMatchObject({ remedy: expect.stringContaining('"Duo passcode:"') });
  expect(answers).toEqual([[PASSWORD], []]);
});

it("sends a password once, though a server asks twice and has another method for it", async () => {
  const rounds = [[hidden("Password: ")], [hidden("Password: ")]];
  const { target, answers, passwords } = await serverThatAsks(rounds, ["keyboard-interactive", "password"]);
  await expect(connect(target, { keychain: keychain() })).rejects.toMatchObject({ code: "authentication-failed" });
  expect(answers).toEqual([[PASSWORD], []]);
  expect(passwords).toEqual([]);
});

it("ends well when the server goes away while the keychain is asked", async () => {
  const folder = temporaryFolder();
  const [asked, gone] = [join(folder, "asked"), join(folder, "gone")];
  // Answers once the server has gone away.
  const program = keychainProgram(`
    const fs = require("node:fs");
    fs.writeFileSync(${JSON.stringify(asked)}, "");
    setInterval(() => {
      if (!fs.existsSync(${JSON.stringify(gone)})) return;
      process.stdout.write(JSON.stringify({ type: "secret", secret: "${PASSWORD}" }));
      process.exit();
    }, 10)`);
  let client: Connection | undefined;
  const options = await serverOfOurs((connection) => {
    client = connection;
    connection.on("authentication", (context) => context.reject(["password"]));
  });
  const attempt = connect(await resolve(options), { keychain: new Keychain({}, { program }) });
  const failed = expect(attempt).rejects.toMatchObject({ code: "connection-failed" });
  await expect.poll(() => existsSync(asked)).toBe(true);
  client!.end();
  await failed;
  const answered = processesWith(program);
  writeFileSync(gone, "");
  await untilGone(...answered);
});

it("says so when the password has expired", async () => {
  const { target, passwords } = await serverThatAsks([], ["password", "expired"]);
  await expect(connect(target, { keychain: keychain() })).rejects.toMatchObject({
    code: "authentication-failed",
    message: expect.stringContaining("has expired"),
    remedy: expect.stringContaining("auth set"),
  });
  expect(passwords).toEqual([PASSWORD]);
});

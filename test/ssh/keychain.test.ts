import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { Keychain } from "../../src/ssh/keychain.ts";
import { untilGone } from "../support/processes.ts";
import { keychainProgram, temporaryFolder } from "./support.ts";

/** What becomes of a keychain program that misbehaves; what a real keychain says is in test/real. */

const request = { type: "secret", account: "password dev@devbox:22" } as const;

function keychainOf(source: string, deadlineMs?: number): Keychain {
  return new Keychain({}, { program: keychainProgram(source), ...(deadlineMs === undefined ? {} : { deadlineMs }) });
}

it.each([
  ["says nothing", ""],
  ["ends with an error", "throw new Error('s3cret')"],
  ["answers something else", "process.stdout.write('s3cret')"],
  ["answers with a key that does not belong there", `process.stdout.write('{"type":"done","extra":1}')`],
  [
    "answers with a secret that is too long",
    `process.stdout.write(JSON.stringify({type:"secret",secret:"x".repeat(5000)}))`,
  ],
  [
    "answers without end",
    `process.stdout.on("error", () => process.exit()); setInterval(() => process.stdout.write("x".repeat(1e5)), 1)`,
  ],
])("a program that %s reads as no keychain", async (_name, source) => {
  const failure = await keychainOf(source)
    .ask(request)
    .catch((error: unknown) => error);
  expect(failure).toMatchObject({
    code: "keychain-unavailable",
    message: "There is no keychain here (the program that asks it ended without an answer)",
    remedy: expect.stringContaining("ssh-add"),
  });
});

it("a keychain that waits for somebody is given up and not asked again", async () => {
  const mark = join(temporaryFolder(), "pid");
  const keychain = keychainOf(
    `require("node:fs").appendFileSync(${JSON.stringify(mark)}, process.pid + "\\n"); setInterval(() => {}, 1000)`,
    500,
  );
  for (let attempt = 0; attempt < 2; attempt += 1) {
    await expect(keychain.ask(request)).rejects.toMatchObject({
      code: "keychain-unavailable",
      message: expect.stringContaining("no answer within 0.5 s"),
    });
  }
  const pids = readFileSync(mark, "utf8").trim().split("\n").map(Number);
  expect(pids).toHaveLength(1);
  await untilGone(...pids);
});

it("the program gets the caller's variables and no others", async () => {
  const variables = { HOME: "/h", PATH: "/p", DBUS_SESSION_BUS_ADDRESS: "unix:path=/b", XDG_RUNTIME_DIR: "/r" };
  const program = keychainProgram(
    `process.stdout.write(JSON.stringify({ type: "accounts", accounts: Object.entries(process.env).map(String) }))`,
  );
  const keychain = new Keychain({ ...variables, SSH_AUTH_SOCK: "/s" } as object, { program });
  expect(await keychain.ask({ type: "list" })).toEqual({
    type: "accounts",
    accounts: Object.entries(variables).map(String),
  });
});

it("a program that cannot be started reads as no keychain", async () => {
  const keychain = new Keychain({}, { program: join(temporaryFolder(), "missing.cjs") });
  await expect(keychain.ask(request)).rejects.toMatchObject({ code: "keychain-unavailable" });
});

import { text } from "node:stream/consumers";
import type { ReadStream } from "node:tty";
import { MAX_SECRET_CHARACTERS } from "../ssh/keychain-protocol.ts";
import { RuntimeError } from "../wire/errors.ts";

/** What the keys of a terminal in raw mode send. */
const ENTER = /[\r\n]/;
const INTERRUPT = "\x03";
const END = "\x04";
const ERASE = ["\x7f", "\b"];
const ERASE_LINE = "\x15";

/**
 * Reads a secret: from a terminal with a question and without echo, else all of standard input but for one newline at
 * its end.
 * @param question shown on stderr, since stdout may go elsewhere
 * @throws RuntimeError usage when nothing, or what can be no secret, was entered; cancelled for Ctrl-C
 */
export async function readSecret(question: string): Promise<string> {
  const { stdin } = process;
  const secret = stdin.isTTY ? await ask(stdin, question) : (await text(stdin)).replace(/\r?\n$/, "");
  if (secret === "" || secret.length > MAX_SECRET_CHARACTERS || /[\0\r\n]/.test(secret)) {
    throw new RuntimeError(
      "usage",
      `A secret is one line of 1 to ${MAX_SECRET_CHARACTERS} characters`,
      "Type it at the prompt, or write it to standard input",
    );
  }
  return secret;
}

async function ask(terminal: ReadStream, question: string): Promise<string> {
  // Before the question is seen, or somebody might answer while there is an echo.
  terminal.setRawMode(true);
  process.stderr.write(question);
  try {
    return await typedLine(terminal);
  } finally {
    terminal.setRawMode(false);
    terminal.pause();
    process.stderr.write("\n");
  }
}

function typedLine(terminal: ReadStream): Promise<string> {
  return new Promise((resolve, reject) => {
    let typed: string[] = [];
    terminal.setEncoding("utf8");
    const onData = (keys: unknown) => {
      for (const key of String(keys)) {
        if (ENTER.test(key) || (key === END && typed.length === 0)) finish(() => resolve(typed.join("")));
        else if (key === INTERRUPT) finish(() => reject(new RuntimeError("cancelled", "Nothing was stored")));
        else if (ERASE.includes(key)) typed.pop();
        else if (key === ERASE_LINE) typed = [];
        else typed.push(key);
      }
    };
    const onEnd = () => finish(() => resolve(typed.join("")));
    const finish = (settle: () => void) => {
      terminal.off("data", onData).off("end", onEnd);
      settle();
    };
    terminal.on("data", onData).once("end", onEnd);
  });
}

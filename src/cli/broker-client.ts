import { readdirSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { DialLineReader, type DialReply, type DialRequest, parseDialReply } from "../wire/dial.ts";
import { isPrivateFolder } from "../wire/private-folder.ts";
import { runtimeFolder } from "../wire/runtime-folder.ts";

/** Any build's broker: the operator means all of them. */
const BROKER_SOCKET = /^broker-[0-9a-f]{8}\.sock$/;
const ANSWER_DEADLINE_MS = 5000;

/** Asks every broker of this user the same thing. @returns the answers of those that live @throws RuntimeError runtime-folder-unsafe */
export async function askBrokers(request: DialRequest): Promise<DialReply[]> {
  const folder = runtimeFolder(process.env);
  if (!isPrivateFolder(folder)) return [];
  const names = readdirSync(folder).filter((name) => BROKER_SOCKET.test(name));
  const replies = await Promise.all(names.map((name) => ask(join(folder, name), request)));
  return replies.filter((reply) => reply !== undefined);
}

function ask(path: string, request: DialRequest): Promise<DialReply | undefined> {
  return new Promise((resolve) => {
    const socket = connect(path);
    const reader = new DialLineReader();
    socket.setTimeout(ANSWER_DEADLINE_MS, () => socket.destroy());
    socket.on("error", () => resolve(undefined));
    socket.on("close", () => resolve(undefined));
    socket.on("data", (chunk: Buffer) => {
      try {
        reader.push(chunk);
        const line = reader.next();
        if (line === undefined) return;
        resolve(parseDialReply(line));
      } catch {
        resolve(undefined);
      }
      socket.destroy();
    });
    socket.write(`${JSON.stringify(request)}\n`);
  });
}

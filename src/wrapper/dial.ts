import { connect, type Socket } from "node:net";
import { type DialCaller, DialLineReader, type DialReply, type DialRequest, parseDialReply } from "../wire/dial.ts";
import { RuntimeError } from "../wire/errors.ts";
import { isPrivateFolder } from "../wire/private-folder.ts";
import { publicSocketPath } from "../wire/rendezvous.ts";
import { runtimeFolder } from "../wire/runtime-folder.ts";
import { brokerName } from "./build.ts";
import { loadBundle } from "./bundles.ts";

/** How often a dial is repeated when the broker ends between being found and answering. */
const ATTEMPTS = 5;

export interface Dialed {
  socket: Socket;
  /** Wire bytes that came together with the broker's answer. */
  early: Buffer;
}

export function callerEnvironment(env: NodeJS.ProcessEnv): DialCaller {
  const { HOME, PATH, SSH_AUTH_SOCK } = env;
  return {
    ...(HOME === undefined ? {} : { HOME }),
    ...(PATH === undefined ? {} : { PATH }),
    ...(SSH_AUTH_SOCK ? { SSH_AUTH_SOCK } : {}),
  };
}

/**
 * Gets a byte stream to the agent from the broker, which is started when there is none.
 * @param request the dial line
 * @param send writes the first wire bytes; they leave together with the dial line, so that they cost no round trip
 * @throws RuntimeError what the broker reports, broker-start-failed, runtime-folder-unsafe
 */
export async function dial(
  request: DialRequest,
  send: (socket: Socket) => void,
  progress: (text: string) => void,
): Promise<Dialed> {
  const folder = runtimeFolder(process.env);
  const path = publicSocketPath(folder, brokerName());
  for (let attempt = 1; ; attempt += 1) {
    const socket = isPrivateFolder(folder) ? await connectTo(path) : undefined;
    if (socket === undefined) {
      if (attempt > ATTEMPTS) throw noBroker("it ends again and again");
      await loadBundle("start-broker").startBroker(folder, brokerName());
      continue;
    }
    socket.cork();
    socket.write(`${JSON.stringify(request)}\n`);
    send(socket);
    socket.uncork();
    const answer = await readAnswer(socket, progress);
    if (answer !== undefined) return { socket, early: answer };
    socket.destroy();
    if (attempt > ATTEMPTS) throw noBroker("it ends without an answer");
  }
}

function noBroker(reason: string): RuntimeError {
  return new RuntimeError(
    "broker-start-failed",
    `The connection broker does not stay up (${reason})`,
    `Look at the log in ${runtimeFolder(process.env)}`,
  );
}

/** @returns undefined when nobody listens there */
export function connectTo(path: string): Promise<Socket | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ path, allowHalfOpen: true });
    socket.once("connect", () => resolve(socket));
    socket.once("error", () => resolve(undefined));
  });
}

/** @returns what follows `connected`; undefined when the broker went away before it answered */
function readAnswer(socket: Socket, progress: (text: string) => void): Promise<Buffer | undefined> {
  return new Promise((resolve, reject) => {
    const reader = new DialLineReader();
    const onData = (chunk: Buffer) => {
      reader.push(chunk);
      for (let text = reader.next(); text !== undefined; text = reader.next()) {
        const reply: DialReply = parseDialReply(text);
        if (reply.type === "progress") {
          progress(reply.text);
          continue;
        }
        socket.off("data", onData);
        socket.off("close", onClose);
        if (reply.type === "connected") {
          socket.pause();
          resolve(reader.rest());
        } else {
          socket.destroy();
          reject(
            reply.type === "error" ? RuntimeError.fromData(reply.error) : noBroker("it gives an unexpected answer"),
          );
        }
        return;
      }
    };
    const onClose = () => resolve(undefined);
    socket.on("data", onData);
    socket.on("error", () => {});
    socket.on("end", () => socket.destroy());
    socket.once("close", onClose);
  });
}

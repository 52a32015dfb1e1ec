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

export function callerEnvironment(env: NodeJS.ProcessEnv): { [Name in keyof DialCaller]?: string } {
  const { HOME, PATH, SSH_AUTH_SOCK, DBUS_SESSION_BUS_ADDRESS, XDG_RUNTIME_DIR } = env;
  return {
    ...(HOME === undefined ? {} : { HOME }),
    ...(PATH === undefined ? {} : { PATH }),
    ...(SSH_AUTH_SOCK ? { SSH_AUTH_SOCK } : {}),
    ...(DBUS_SESSION_BUS_ADDRESS ? { DBUS_SESSION_BUS_ADDRESS } : {}),
    ...(XDG_RUNTIME_DIR ? { XDG_RUNTIME_DIR } : {}),
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
    const outcome = isPrivateFolder(folder) ? await dialOnce(path, request, send, progress) : "nobody";
    if (typeof outcome === "object") return outcome;
    if (attempt > ATTEMPTS)
      throw noBroker(outcome === "nobody" ? "it ends again and again" : "it ends without an answer");
    if (outcome === "nobody") await loadBundle("start-broker").startBroker(folder, brokerName());
  }
}

/** @returns "nobody" when no broker listens, "gone" when it went away before it answered */
async function dialOnce(
  path: string,
  request: DialRequest,
  send: (socket: Socket) => void,
  progress: (text: string) => void,
): Promise<Dialed | "nobody" | "gone"> {
  const socket = connect({ path, allowHalfOpen: true });
  let connected = false;
  socket.once("connect", () => {
    connected = true;
  });
  // Written before the connection stands, so that it leaves with it, and the caller has that time for other things.
  socket.cork();
  socket.write(`${JSON.stringify(request)}\n`);
  send(socket);
  socket.uncork();
  const early = await readAnswer(socket, progress);
  if (early !== undefined) return { socket, early };
  socket.destroy();
  return connected ? "gone" : "nobody";
}

function noBroker(reason: string): RuntimeError {
  return new RuntimeError(
    "broker-start-failed",
    `The connection broker does not stay up (${reason})`,
    `Look at the log in ${runtimeFolder(process.env)}`,
  );
}

/** @returns what follows `connected`; undefined when the broker went away before it answered */
function readAnswer(socket: Socket, progress: (text: string) => void): Promise<Buffer | undefined> {
  return new Promise((resolve, reject) => {
    const reader = new DialLineReader();
    const onData = (chunk: Buffer) => {
      let reply: DialReply | undefined;
      try {
        reader.push(chunk);
        reply = nextReply(reader, progress);
      } catch {
        fail(noBroker("it gives an answer that makes no sense"));
        return;
      }
      if (reply === undefined) return;
      if (reply.type === "connected") {
        stopListening();
        socket.pause();
        resolve(reader.rest());
      } else if (reply.type === "error") {
        fail(RuntimeError.fromData(reply.error));
      } else {
        fail(noBroker("it gives an unexpected answer"));
      }
    };
    const onEnd = () => socket.destroy();
    const onClose = () => resolve(undefined);
    const stopListening = () => socket.off("data", onData).off("end", onEnd).off("close", onClose);
    const fail = (error: RuntimeError) => {
      stopListening();
      socket.destroy();
      reject(error);
    };
    socket.on("data", onData);
    socket.on("error", () => {});
    socket.on("end", onEnd);
    socket.once("close", onClose);
  });
}

/** The first reply that is no progress. @throws Error when a line is no reply */
function nextReply(reader: DialLineReader, progress: (text: string) => void): DialReply | undefined {
  for (let text = reader.next(); text !== undefined; text = reader.next()) {
    const reply = parseDialReply(text);
    if (reply.type !== "progress") return reply;
    progress(reply.text);
  }
  return undefined;
}

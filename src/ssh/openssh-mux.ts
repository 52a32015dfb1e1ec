import { connect, type Socket } from "node:net";
import { concat, string, uint32 } from "./openssh-wire.ts";

/** OpenSSH's PROTOCOL.mux. */
const Mux = {
  Hello: 0x00000001,
  StopListening: 0x10000009,
  Proxy: 0x1000000f,
  Ok: 0x80000001,
  ProxyOk: 0x8000000f,
} as const;
const VERSION = 4;

const MAX_ANSWER_BYTES = 64 * 1024;

/**
 * Makes the control socket of a waiting `ssh` our private line: it stops listening, which also takes the socket's name
 * away, and hands us SSH's connection protocol itself ("proxy mode"). From then on ssh ends when our line does.
 *
 * @returns the line, paused, with the bytes that came behind the answers still to be read
 * @throws Error when what answers is not such an ssh, or it does not grant that
 */
export async function takeOverMaster(controlPath: string): Promise<Socket> {
  const socket = connect({ path: controlPath, allowHalfOpen: false });
  return new Promise((resolve, reject) => {
    let pending: Buffer = Buffer.alloc(0);
    const expected: number[] = [Mux.Hello, Mux.Ok, Mux.ProxyOk];
    const fail = (problem: string) => {
      socket.destroy();
      reject(new Error(problem));
    };
    const onError = (error: Error) => fail(error.message);
    const onClose = () => fail("the control socket was closed");
    const onData = (chunk: Buffer) => {
      pending = Buffer.concat([pending, chunk]);
      while (pending.length >= 8) {
        const length = pending.readUInt32BE(0);
        const type = pending.readUInt32BE(4);
        if (length < 4 || length > MAX_ANSWER_BYTES || type !== expected[0]) {
          fail(`the control socket answered ${type.toString(16)}`);
          return;
        }
        if (pending.length < 4 + length) return;
        pending = pending.subarray(4 + length);
        expected.shift();
        if (expected.length > 0) continue;
        socket.off("error", onError).off("close", onClose).off("data", onData).pause();
        if (pending.length > 0) socket.unshift(pending);
        resolve(socket);
        return;
      }
    };
    socket.on("error", onError).on("close", onClose).on("data", onData);
    socket.write(
      concat([
        string(concat([uint32(Mux.Hello), uint32(VERSION)])),
        string(concat([uint32(Mux.StopListening), uint32(0)])),
        string(concat([uint32(Mux.Proxy), uint32(1)])),
      ]),
    );
  });
}

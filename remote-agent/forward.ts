import { connect } from "node:net";
import type { Duplex } from "node:stream";
import { encodeJsonFrame, FrameType, PREAMBLE } from "../src/wire/frame.ts";
import type { WireRequest } from "../src/wire/from-client.ts";

/**
 * Joins a client to the agent that has what it asks for: an older build of this one, which finishes what it runs. The
 * client notices nothing; it has had a preamble from here already, so the other one's is left out.
 * @param rest bytes of the client that followed its request
 */
export function forwardToAgent(client: Duplex, rest: Buffer, socketPath: string, request: WireRequest): void {
  const agent = connect({ path: socketPath, allowHalfOpen: true });
  agent.write(PREAMBLE);
  agent.write(encodeJsonFrame(FrameType.Request, request));
  if (rest.length > 0) agent.write(rest);
  client.pipe(agent);
  let preamble = 0;
  const skipPreamble = (chunk: Buffer) => {
    const own = Math.min(PREAMBLE.length - preamble, chunk.length);
    preamble += own;
    if (preamble < PREAMBLE.length) return;
    agent.off("data", skipPreamble);
    if (own < chunk.length) client.write(chunk.subarray(own));
    agent.pipe(client);
  };
  agent.on("data", skipPreamble);
  agent.on("error", () => client.destroy());
  agent.on("close", () => client.destroy());
  client.on("close", () => agent.destroy());
}

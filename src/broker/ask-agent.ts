import type { Duplex } from "node:stream";
import { WireConnection } from "../wire/connection.ts";
import { FrameType } from "../wire/frame.ts";
import { CLIENT_SIDE, type WireResponse } from "../wire/from-agent.ts";
import type { WireRequest } from "../wire/from-client.ts";

/**
 * Asks the agent something on the broker's own account: what it runs, or to end what a wrapper has left behind.
 * @returns the agent's answer; undefined when the channel was lost before it
 */
export function askAgent(channel: Duplex, request: WireRequest): Promise<WireResponse | undefined> {
  return new Promise((resolve) => {
    const connection = new WireConnection(channel, CLIENT_SIDE, {
      onJson: (frame) => {
        if (frame.type === FrameType.Response) resolve(frame.value);
        connection.destroy();
      },
      onData: () => {},
      onMark: () => {},
      onEnd: () => connection.destroy(),
      onClose: () => resolve(undefined),
    });
    connection.start();
    connection.sendJson(FrameType.Request, request);
  });
}

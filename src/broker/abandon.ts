import type { Duplex } from "node:stream";
import { WireConnection } from "../wire/connection.ts";
import { FrameType } from "../wire/frame.ts";
import { CLIENT_SIDE } from "../wire/from-agent.ts";

/**
 * Tells the agent that the wrapper of this session is gone for good, so that what it started ends.
 * @returns when the agent has answered, or the channel is gone
 */
export function sendAbandon(channel: Duplex, session: string): Promise<void> {
  return new Promise((resolve) => {
    const connection = new WireConnection(channel, CLIENT_SIDE, {
      onJson: () => connection.destroy(),
      onData: () => {},
      onMark: () => {},
      onEnd: () => connection.destroy(),
      onClose: () => resolve(),
    });
    connection.start();
    connection.sendJson(FrameType.Request, { op: "abandon", session });
  });
}

declare module "ssh2/lib/Channel.js" {
  import type { Channel } from "ssh2";

  /** Bytes that a server may send before it is given credit. */
  export const MAX_WINDOW: number;
  /** Raises the credit to MAX_WINDOW; does nothing on a channel that is closed. */
  export function windowAdjust(channel: Channel): void;
}

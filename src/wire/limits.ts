/**
 * Every bound of wire protocol v1 in one place. A bound is checked before anything is allocated for what it bounds.
 */

/**
 * Bytes of one stream that may be sent and not yet acknowledged. A sender may pass it by less than one data frame.
 * 2 MiB, not the 1 MiB of the first design: at 100 ms of round-trip time a window of 1 MiB gives half of what
 * OpenSSH's own 2 MiB channel window gives.
 */
export const STREAM_WINDOW_BYTES = 2 * 1024 * 1024;

/** The streams over one link may always have this much on the way together, however long its queue is. */
export const MIN_WINDOW_BYTES = 32 * 1024;

/** A receiver acknowledges at once when so many bytes are new, and sooner or later when it is less. */
export const ACKNOWLEDGE_STEP_BYTES = 16 * 1024;

/** How much later at most, in ms. */
export const ACKNOWLEDGE_DELAY_MS = 5;

/** Bytes of data in one data frame. Small enough that a keystroke never waits long behind one. */
export const MAX_DATA_BYTES = 64 * 1024;

/** Controls or events that may be sent and not yet acknowledged. */
export const MESSAGE_WINDOW = 256;

/** Milliseconds within which the other side has to send its whole preamble once it has sent a first byte. */
export const PREAMBLE_DEADLINE_MS = 10_000;

/** Milliseconds in which the other side has to read a Fatal frame and close before the stream is destroyed. */
export const FAREWELL_DEADLINE_MS = 5000;

/** How many heartbeats an agent misses before it takes a link for lost. */
export const MISSED_HEARTBEATS = 3;

/**
 * How often a client says over its link that it is there. A link that is lost in silence closes nothing on the host's
 * side: sshd would keep the channel, and the agent the workload, for hours.
 * @param reconnectWindowMs milliseconds for which the workload outlives a lost link
 * @returns milliseconds
 */
export function heartbeatMs(reconnectWindowMs: number): number {
  return Math.min(Math.max(reconnectWindowMs / 4, 250), 15_000);
}

/**
 * Bytes of one bridged connection that may wait for their reader. More than the frames that a side may have on the way
 * without an answer: two windows, a Request, a Supply or Response, and a window of events.
 */
export const MAX_CONNECTION_BYTES = 32 * 1024 * 1024;

/** The same for all connections of one bridge together. */
export const MAX_BRIDGED_BYTES = 256 * 1024 * 1024;

/** Connections that the host's end of a bridge has at once. */
export const MAX_BRIDGED_CONNECTIONS = 4096;

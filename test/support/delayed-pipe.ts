import type { Socket } from "node:net";

/** What all connections of a proxy share in one direction. Changes take effect on what arrives from then on. */
export interface LinkState {
  oneWayDelayMs: number;
  stalled: boolean;
  /** Bytes per second that the link carries in this direction. */
  bytesPerSecond: number | undefined;
  /** When the link has sent off everything that it was given, on the clock of `performance.now()`. */
  freeAt: number;
}

/** Bytes of one connection and direction that may be on their way. */
const MAX_IN_FLIGHT_BYTES = 64 * 1024 * 1024;
/** Timers have a resolution of one millisecond; a chunk that is due within half of one leaves now. */
const EARLY_MS = 0.5;
/** A limited link sends off this many pieces a second, so that a slow one trickles instead of bursting. */
const PIECES_PER_SECOND = 50;

interface InFlight {
  /** Undefined for the end of the stream. */
  chunk: Buffer | undefined;
  dueAt: number;
}

/** One direction of one connection: hands on what arrives, in order, each chunk as late as the link demands. */
export class DelayedPipe {
  readonly #from: Socket;
  readonly #to: Socket;
  readonly #link: LinkState;
  readonly #queue: InFlight[] = [];
  #queuedBytes = 0;
  #timer: NodeJS.Timeout | undefined;
  #discarding = false;

  constructor(from: Socket, to: Socket, link: LinkState) {
    this.#from = from;
    this.#to = to;
    this.#link = link;
    from.on("data", (chunk: Buffer) => this.#take(chunk));
    from.on("end", () => this.#take(undefined));
    to.on("drain", () => this.#readOn());
  }

  /** Looks again at what is waiting, after the link's state has changed. */
  update(): void {
    this.#deliver();
  }

  /** From now on everything is lost on the way, what is on its way included. */
  discard(): void {
    this.#discarding = true;
    clearTimeout(this.#timer);
    this.#queue.length = 0;
    this.#queuedBytes = 0;
    this.#from.resume();
  }

  #take(chunk: Buffer | undefined): void {
    if (this.#discarding) return;
    const { oneWayDelayMs, stalled, bytesPerSecond } = this.#link;
    const now = performance.now();
    const undelayed = oneWayDelayMs === 0 && !stalled && bytesPerSecond === undefined;
    if (undelayed && this.#queue.length === 0) {
      if (chunk === undefined) this.#to.end();
      else if (!this.#to.write(chunk)) this.#from.pause();
      return;
    }
    const pieces =
      chunk !== undefined && bytesPerSecond !== undefined
        ? slice(chunk, Math.ceil(bytesPerSecond / PIECES_PER_SECOND))
        : [chunk];
    for (const piece of pieces) {
      let leavesAt = now;
      if (bytesPerSecond !== undefined) {
        leavesAt = Math.max(now, this.#link.freeAt) + ((piece?.length ?? 0) * 1000) / bytesPerSecond;
        this.#link.freeAt = leavesAt;
      }
      this.#queue.push({ chunk: piece, dueAt: leavesAt + oneWayDelayMs });
      this.#queuedBytes += piece?.length ?? 0;
    }
    if (this.#inFlight() > MAX_IN_FLIGHT_BYTES) this.#from.pause();
    if (this.#timer === undefined) this.#deliver();
  }

  #deliver(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#discarding || this.#link.stalled) return;
    const now = performance.now();
    let due = 0;
    for (; due < this.#queue.length && this.#queue[due]!.dueAt <= now + EARLY_MS; due += 1) {
      const { chunk } = this.#queue[due]!;
      this.#queuedBytes -= chunk?.length ?? 0;
      if (chunk === undefined) this.#to.end();
      else if (!this.#to.destroyed) this.#to.write(chunk);
    }
    this.#queue.splice(0, due);
    const next = this.#queue[0];
    if (next !== undefined) this.#timer = setTimeout(() => this.#deliver(), next.dueAt - now);
    this.#readOn();
  }

  #readOn(): void {
    if (this.#from.isPaused() && this.#inFlight() < MAX_IN_FLIGHT_BYTES / 2) this.#from.resume();
  }

  #inFlight(): number {
    return this.#queuedBytes + this.#to.writableLength;
  }
}

function slice(chunk: Buffer, bytes: number): Buffer[] {
  const pieces: Buffer[] = [];
  for (let at = 0; at < chunk.length; at += bytes) pieces.push(chunk.subarray(at, at + bytes));
  return pieces;
}

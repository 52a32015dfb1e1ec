import { write } from "node:fs";
import { Socket } from "node:net";
import { closeDescriptor, isPipe } from "./descriptor.ts";

/**
 * Descriptor 1 or 2 as a sink of raw bytes, whatever it is. Calls back when the operating system has the bytes, which
 * is when they may be acknowledged.
 */
export interface ByteSink {
  write(bytes: Buffer, onWritten: () => void): void;
  /** Nothing more will be written: a reader gets the end of file behind the last byte. */
  end(): void;
}

/** @param onBroken called once when nobody reads there any more */
export function openByteSink(fd: number, onBroken: () => void): ByteSink {
  return isPipe(fd) ? new PipeSink(fd, onBroken) : new FileSink(fd, onBroken);
}

/** The end of an output to which nothing was written: as `end` of a sink that was never opened. */
export function endUnopened(fd: number): void {
  if (isPipe(fd)) closeDescriptor(fd);
}

class PipeSink implements ByteSink {
  readonly #fd: number;
  readonly #socket: Socket;
  #unwritten = 0;
  #ended = false;

  constructor(fd: number, onBroken: () => void) {
    this.#fd = fd;
    this.#socket = new Socket({ fd, readable: false, writable: true });
    this.#socket.once("error", () => onBroken());
  }

  write(bytes: Buffer, onWritten: () => void): void {
    this.#unwritten += 1;
    this.#socket.write(bytes, (error) => {
      this.#unwritten -= 1;
      if (!error) onWritten();
      this.#closeWhenDone();
    });
  }

  end(): void {
    this.#ended = true;
    this.#closeWhenDone();
  }

  /** Not with the socket's own `end`, which fails on a descriptor that is a pipe and no socket. */
  #closeWhenDone(): void {
    if (!this.#ended || this.#unwritten > 0 || this.#socket.destroyed) return;
    this.#socket.once("close", () => closeDescriptor(this.#fd));
    this.#socket.destroy();
  }
}

class FileSink implements ByteSink {
  readonly #fd: number;
  readonly #onBroken: () => void;
  #queue: { bytes: Buffer; onWritten: () => void }[] = [];
  #broken = false;

  constructor(fd: number, onBroken: () => void) {
    this.#fd = fd;
    this.#onBroken = onBroken;
  }

  write(bytes: Buffer, onWritten: () => void): void {
    this.#queue.push({ bytes, onWritten });
    if (this.#queue.length === 1) this.#next();
  }

  /** Nobody waits for the end of a file. */
  end(): void {}

  #next(): void {
    const next = this.#queue[0];
    if (next === undefined || this.#broken) return;
    write(this.#fd, next.bytes, (error, written) => {
      if (error?.code === "EAGAIN") {
        setTimeout(() => this.#next(), 1);
        return;
      }
      if (error) {
        this.#broken = true;
        this.#onBroken();
        return;
      }
      if (written < next.bytes.length) {
        next.bytes = next.bytes.subarray(written);
      } else {
        this.#queue.shift();
        next.onWritten();
      }
      this.#next();
    });
  }
}

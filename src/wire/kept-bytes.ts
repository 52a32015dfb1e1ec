/**
 * Bytes at absolute offsets, kept from the time they are appended until they are dropped from the front. What the
 * sending half of a stream may have to send again.
 */

/**
 * A program may write single bytes, and a Buffer of its own for each costs a hundred times as much; shorter writes than
 * this are gathered. Bytes.
 */
const SMALL_BYTES = 2 * 1024;
const GATHER_BYTES = 8 * 1024;

interface Chunk {
  offset: number;
  bytes: Buffer;
  /** Set when this chunk gathers small writes: the memory that `bytes` is part of, and how much of it is in use. */
  gather?: { memory: Buffer; used: number };
}

export class KeptBytes {
  #chunks: Chunk[] = [];
  #start = 0;
  #end = 0;

  /** Offset of the first byte that is kept. */
  get start(): number {
    return this.#start;
  }

  /** Offset behind the last byte that was appended. */
  get end(): number {
    return this.#end;
  }

  get length(): number {
    return this.#end - this.#start;
  }

  /** @param bytes kept as they are when they are many, so the caller must not change them afterwards */
  append(bytes: Buffer): void {
    if (bytes.length >= SMALL_BYTES) this.#chunks.push({ offset: this.#end, bytes });
    else if (bytes.length > 0) this.#gather(bytes);
    this.#end += bytes.length;
  }

  #gather(bytes: Buffer): void {
    let last = this.#chunks.at(-1);
    if (last?.gather === undefined || last.gather.used + bytes.length > GATHER_BYTES) {
      const memory = Buffer.allocUnsafeSlow(GATHER_BYTES);
      last = { offset: this.#end, bytes: memory.subarray(0, 0), gather: { memory, used: 0 } };
      this.#chunks.push(last);
    }
    const { memory, used } = last.gather!;
    bytes.copy(memory, used);
    last.bytes = memory.subarray(used - last.bytes.length, used + bytes.length);
    last.gather!.used += bytes.length;
  }

  /** The bytes from `offset` on, as far as they lie together; empty at the end. `offset` is one that is kept. */
  from(offset: number): Buffer {
    const chunk = this.#chunks[this.#indexOf(offset)];
    return chunk === undefined ? Buffer.alloc(0) : chunk.bytes.subarray(offset - chunk.offset);
  }

  dropBefore(offset: number): void {
    this.#chunks.splice(0, this.#indexOf(offset));
    const first = this.#chunks[0];
    if (first !== undefined) {
      first.bytes = first.bytes.subarray(offset - first.offset);
      first.offset = offset;
    }
    this.#start = offset;
  }

  /** Index of the chunk that holds this byte; the number of chunks when it is the end. */
  #indexOf(offset: number): number {
    let low = 0;
    let high = this.#chunks.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const { offset: begin, bytes } = this.#chunks[middle]!;
      if (offset < begin + bytes.length) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}

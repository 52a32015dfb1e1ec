/** One mutex for each key, which exist only while somebody holds or awaits them. Fair: first come, first served. */
export class Mutexes {
  readonly #tails = new Map<string, Promise<void>>();

  /** Runs the action when all earlier ones with this key are done, whatever became of them. */
  async run<T>(key: string, action: () => Promise<T>): Promise<T> {
    const earlier = this.#tails.get(key) ?? Promise.resolve();
    let release: () => void = () => {};
    const tail = new Promise<void>((resolve) => {
      release = resolve;
    });
    this.#tails.set(key, tail);
    await earlier;
    try {
      return await action();
    } finally {
      if (this.#tails.get(key) === tail) this.#tails.delete(key);
      release();
    }
  }
}

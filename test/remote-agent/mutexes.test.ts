import { describe, expect, it } from "vitest";
import { Mutexes } from "../../remote-agent/mutexes.ts";

/** An action that a test ends by hand. */
function step(log: string[], name: string): { action: () => Promise<string>; finish: () => void } {
  let finish: () => void = () => {};
  const finished = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const action = async () => {
    log.push(`${name} begins`);
    await finished;
    log.push(`${name} ends`);
    return name;
  };
  return { action, finish };
}

const settle = () => new Promise((resolve) => setImmediate(resolve));

describe("mutexes", () => {
  it("run one action at a time for a key, in the order in which they came", async () => {
    const mutexes = new Mutexes();
    const log: string[] = [];
    const steps = ["a", "b", "c"].map((name) => step(log, name));
    const results = steps.map(({ action }) => mutexes.run("key", action));
    await settle();
    expect(log).toEqual(["a begins"]);
    // Finishing out of turn changes nothing.
    steps[2]!.finish();
    await settle();
    expect(log).toEqual(["a begins"]);
    steps[0]!.finish();
    await settle();
    expect(log).toEqual(["a begins", "a ends", "b begins"]);
    steps[1]!.finish();
    expect(await Promise.all(results)).toEqual(["a", "b", "c"]);
    expect(log.slice(3)).toEqual(["b ends", "c begins", "c ends"]);
  });

  it("do not hold up other keys, whatever their names", async () => {
    const mutexes = new Mutexes();
    const log: string[] = [];
    const waiting = step(log, "waiting");
    const result = mutexes.run("constructor", waiting.action);
    expect(await mutexes.run("__proto__", () => Promise.resolve("other"))).toBe("other");
    waiting.finish();
    expect(await result).toBe("waiting");
  });

  it("go on after a failure, which only its own caller sees", async () => {
    const mutexes = new Mutexes();
    const failing = mutexes.run("key", () => Promise.reject(new Error("failed")));
    const throwing = mutexes.run("key", () => {
      throw new Error("threw");
    });
    const after = mutexes.run("key", () => Promise.resolve("fine"));
    await expect(failing).rejects.toThrow("failed");
    await expect(throwing).rejects.toThrow("threw");
    expect(await after).toBe("fine");
  });

  it("let an action that is running queue another one for the same key", async () => {
    const mutexes = new Mutexes();
    const log: string[] = [];
    let inner: Promise<unknown> | undefined;
    await mutexes.run("key", async () => {
      inner = mutexes.run("key", async () => void log.push("inner"));
      await settle();
      log.push("outer ends");
    });
    await inner;
    expect(log).toEqual(["outer ends", "inner"]);
  });
});

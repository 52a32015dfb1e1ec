import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { closeSync, constants, openSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { describe, expect, it, onTestFinished } from "vitest";
import { readSome, readToEnd, tryRead, writeAll } from "../../src/wrapper/synchronous-io.ts";
import { scratchFolder } from "../support/scratch-folder.ts";

const { O_NONBLOCK, O_RDONLY, O_RDWR, O_WRONLY } = constants;

/** A pipe with a name, both ends open here and not blocking, as a caller that uses an event loop hands them on. */
function nonBlockingPipe(): { path: string; readEnd: number; writeEnd: number; close(fd: number): void } {
  const path = join(scratchFolder(), "pipe");
  spawnSync("mkfifo", [path]);
  const open = new Set([openSync(path, O_RDONLY | O_NONBLOCK), openSync(path, O_WRONLY | O_NONBLOCK)]);
  const [readEnd, writeEnd] = [...open] as [number, number];
  const close = (fd: number) => {
    if (open.delete(fd)) closeSync(fd);
  };
  onTestFinished(() => open.forEach(close));
  return { path, readEnd, writeEnd, close };
}

function shell(script: string, stdio: ("ignore" | "pipe" | number)[]): ChildProcess {
  const child = spawn("/bin/sh", ["-c", script], { stdio });
  onTestFinished(() => {
    child.kill("SIGKILL");
  });
  return child;
}

describe("reading", () => {
  it("waits for a writer that takes its time, on a descriptor that does not block", () => {
    const { readEnd, writeEnd, close } = nonBlockingPipe();
    shell("for part in a b c; do printf $part; sleep 0.02; done; head -c 300000 /dev/zero", ["ignore", writeEnd]);
    close(writeEnd);
    const bytes = readToEnd(readEnd, 1024 * 1024);
    expect(bytes.subarray(0, 3).toString()).toBe("abc");
    expect(bytes).toHaveLength(300_003);
  });

  it("returns what is there, and nothing only at the end", () => {
    const { readEnd, writeEnd, close } = nonBlockingPipe();
    const small = Buffer.alloc(10);
    expect(tryRead(readEnd, small)).toBeUndefined();
    writeAll(writeEnd, "abc");
    expect(tryRead(readEnd, small)).toBe(3);
    expect(small.toString("latin1", 0, 3)).toBe("abc");
    writeAll(writeEnd, "de");
    expect(readSome(readEnd).toString()).toBe("de");
    close(writeEnd);
    expect(tryRead(readEnd, small)).toBe(0);
    expect(readSome(readEnd)).toHaveLength(0);
    expect(readToEnd(readEnd, 10)).toHaveLength(0);
  });

  it("stops behind the limit, also where there is no end", () => {
    const fd = openSync("/dev/zero", O_RDONLY);
    onTestFinished(() => closeSync(fd));
    const bytes = readToEnd(fd, 200_000);
    expect(bytes.length).toBeGreaterThan(200_000);
    expect(bytes.length).toBeLessThan(300_000);
  });

  it("reads exactly the limit to its end", () => {
    const path = join(scratchFolder(), "file");
    writeFileSync(path, Buffer.alloc(100, "x"));
    for (const limit of [99, 100, 101]) {
      const fd = openSync(path, O_RDONLY);
      expect(readToEnd(fd, limit)).toHaveLength(100);
      closeSync(fd);
    }
  });

  it("fails on what cannot be read", () => {
    const fd = openSync("/", O_RDONLY);
    onTestFinished(() => closeSync(fd));
    expect(() => readToEnd(fd, 10)).toThrow(/EISDIR/);
  });
});

describe("writing", () => {
  it("waits for a reader that takes its time, on a descriptor that does not block", async () => {
    const { path, writeEnd, readEnd, close } = nonBlockingPipe();
    // Holds the pipe open until the reader is there.
    const keep = openSync(path, O_RDWR);
    const reader = shell(`exec < ${path}; sleep 0.05; exec sha256sum`, ["ignore", "pipe"]);
    const output = buffer(reader.stdout!);
    const content = Buffer.alloc(1_500_000, "0123456789");
    writeAll(writeEnd, content);
    close(writeEnd);
    close(readEnd);
    closeSync(keep);
    const expected = spawnSync("sha256sum", { input: content }).stdout.toString();
    expect((await output).toString()).toBe(expected);
  });

  it("writes text as UTF-8, and nothing for nothing", () => {
    const path = join(scratchFolder(), "file");
    const fd = openSync(path, O_WRONLY | constants.O_CREAT);
    writeAll(fd, "");
    writeAll(fd, "ä€𝄞");
    writeAll(fd, new Uint8Array([0, 255]));
    closeSync(fd);
    expect(readFileSync(path)).toEqual(Buffer.concat([Buffer.from("ä€𝄞"), Buffer.of(0, 255)]));
  });

  it("fails when nobody reads any more", () => {
    const { readEnd, writeEnd, close } = nonBlockingPipe();
    close(readEnd);
    expect(() => writeAll(writeEnd, "x")).toThrow(/EPIPE/);
  });
});

import { Readable } from "node:stream";
import { describe, expect, it } from "vitest";
import type { WireConnection } from "../../src/wire/connection.ts";
import { RuntimeError } from "../../src/wire/errors.ts";
import { FrameType, StreamId } from "../../src/wire/frame.ts";
import { STREAM_WINDOW_BYTES } from "../../src/wire/limits.ts";
import { Upload } from "../../src/wrapper/upload.ts";
import { Direction } from "../wire/link.ts";

const MIB = 1024 * 1024;
const SUPPLY = { what: "helper" as const };

/** A source that counts how much was taken from it. */
class Source extends Readable {
  taken = 0;
  readonly #total: number;
  readonly #chunk: number;

  constructor(total: number, chunk = 64 * 1024) {
    super({ highWaterMark: chunk });
    this.#total = total;
    this.#chunk = chunk;
  }

  override _read(): void {
    const length = Math.min(this.#chunk, this.#total - this.taken);
    this.taken += length;
    this.push(length === 0 ? null : Buffer.alloc(length, "x"));
  }
}

function setting(): { link: Direction; upload: Upload; sent(): number; settle(): Promise<void> } {
  const link = new Direction();
  return {
    link,
    upload: new Upload(link as unknown as WireConnection),
    sent: () => link.queue.reduce((sum, frame) => sum + (frame.kind === "data" ? frame.bytes.length : 0), 0),
    settle: async () => {
      for (let turn = 0; turn < 100; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

describe("an upload", () => {
  it("announces its bytes, sends them and says where they end", async () => {
    const { link, upload } = setting();
    await upload.run(Promise.resolve({ supply: SUPPLY, stream: Readable.from([Buffer.from("ab"), Buffer.from("c")]) }));
    expect(link.queue).toEqual([
      { kind: "json", type: FrameType.Supply, value: SUPPLY },
      { kind: "data", offset: 0, bytes: Buffer.from("ab") },
      { kind: "data", offset: 2, bytes: Buffer.from("c") },
      { kind: "mark", type: FrameType.End, offset: 3 },
    ]);
  });

  it.each([64 * 1024, 16 * MIB])("holds its source up while nothing is acknowledged (chunks of %i)", async (chunk) => {
    const { upload, sent, settle } = setting();
    const source = new Source(40 * MIB, chunk);
    const run = upload.run(Promise.resolve({ supply: SUPPLY, stream: source }));
    await settle();
    expect(sent()).toBeLessThan(STREAM_WINDOW_BYTES + 128 * 1024);
    expect(source.taken).toBeLessThanOrEqual(STREAM_WINDOW_BYTES + 3 * chunk);
    for (let before = -1; sent() !== before; ) {
      before = sent();
      upload.onMark(FrameType.Acknowledge, before);
      await settle();
    }
    expect(sent()).toBe(40 * MIB);
    await run;
  });

  it("ends its source when the agent wants no more", async () => {
    const { link, upload, settle } = setting();
    const source = new Source(100 * MIB);
    const run = upload.run(Promise.resolve({ supply: SUPPLY, stream: source }));
    await settle();
    upload.onMark(FrameType.Refuse, 0);
    await run;
    expect(source.destroyed).toBe(true);
    expect(source.taken).toBeLessThan(10 * MIB);
    expect(link.queue.some((frame) => frame.kind === "mark")).toBe(false);
  });

  it.each<[string, (upload: Upload) => void]>([
    ["the connection was lost", (upload) => upload.close()],
    ["the agent wanted nothing", (upload) => upload.onMark(FrameType.Refuse, 0)],
  ])("ends a source that comes after %s", async (_name, happen) => {
    const { upload, sent } = setting();
    let supply: (supplies: { supply: typeof SUPPLY; stream: Readable }) => void = () => {};
    const run = upload.run(
      new Promise((resolve) => {
        supply = resolve;
      }),
    );
    happen(upload);
    const source = new Source(100 * MIB);
    supply({ supply: SUPPLY, stream: source });
    await run;
    expect(source.destroyed).toBe(true);
    expect(sent()).toBe(0);
  });

  it("tells the agent what went wrong on this side, before its bytes or in the middle of them", async () => {
    const failure = new RuntimeError("source-unreadable", "It cannot be read", "Mend it");
    const before = setting();
    await expect(before.upload.run(Promise.reject(failure))).rejects.toBe(failure);
    expect(before.link.queue).toEqual([
      { kind: "json", type: FrameType.Supply, value: { what: "error", error: failure.toData() } },
    ]);

    const within = setting();
    const source = new Readable({ read: () => {} });
    const run = within.upload.run(Promise.resolve({ supply: SUPPLY, stream: source }));
    source.push("ab");
    await within.settle();
    source.destroy(failure);
    await expect(run).rejects.toBe(failure);
    expect(within.link.queue.map((frame) => frame.kind)).toEqual(["json", "data", "json"]);
    expect(within.link.queue.at(-1)).toMatchObject({ value: { what: "error", error: { code: "source-unreadable" } } });
  });

  it("takes no end from the agent, and no acknowledgement of what it has not sent", async () => {
    const { upload, settle } = setting();
    void upload.run(Promise.resolve({ supply: SUPPLY, stream: new Source(10) }));
    await settle();
    expect(() => upload.onMark(FrameType.End, 0)).toThrow(/ended a stream that it receives/);
    expect(() => upload.onMark(FrameType.Acknowledge, 11)).toThrow(
      `stream ${StreamId.Upload} is acknowledged up to 11`,
    );
  });
});

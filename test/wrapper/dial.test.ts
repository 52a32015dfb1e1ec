import { once } from "node:events";
import { chmodSync } from "node:fs";
import type { Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { MAX_DIAL_LINE_BYTES } from "../../src/wire/dial.ts";
import { callerEnvironment, dial } from "../../src/wrapper/dial.ts";
import { type Dial, FakeBroker } from "./fake-broker.ts";

const REQUEST = { type: "dial" as const, options: { host: "h" }, caller: { HOME: "/home/me" } };
const nothing = () => {};
const first = (socket: Socket) => {
  socket.write("first wire bytes");
};

function line(value: unknown): string {
  return `${JSON.stringify(value)}\n`;
}

describe("dialing the broker", () => {
  it("sends the first wire bytes with the line, and returns what came with the answer", async () => {
    const broker = await FakeBroker.start(({ socket }) => {
      socket.write(line({ type: "connected" }));
      socket.write("early");
      socket.once("data", (chunk) => socket.write(`got ${chunk}`));
      socket.resume();
    });
    const { socket, early } = await dial(REQUEST, first, nothing);
    expect(broker.dials).toHaveLength(1);
    expect(broker.dials[0]).toMatchObject({ request: REQUEST });
    expect(broker.dials[0]!.rest.toString()).toBe("first wire bytes");
    let received = early.toString();
    socket.on("data", (chunk: Buffer) => {
      received += chunk;
    });
    socket.resume();
    socket.write("later");
    while (received !== "earlygot later") await once(socket, "data");
    socket.destroy();
  });

  it("shows progress as it comes, in whatever pieces", async () => {
    await FakeBroker.start(async ({ socket }) => {
      const answer = line({ type: "progress", text: "Connecting… ä" }) + line({ type: "progress", text: "Sending…" });
      for (const byte of Buffer.from(answer + line({ type: "connected" }))) {
        await new Promise((resolve) => socket.write(Buffer.of(byte), resolve));
      }
    });
    const shown: string[] = [];
    const { socket, early } = await dial(REQUEST, nothing, (text) => shown.push(text));
    expect(shown).toEqual(["Connecting… ä", "Sending…"]);
    expect(early).toHaveLength(0);
    socket.destroy();
  });

  it("fails with what the broker reports", async () => {
    const error = { code: "host-key-unknown", message: "The key of h is not known", remedy: "Check it" };
    await FakeBroker.start(({ socket }) => socket.end(line({ type: "error", error })));
    await expect(dial(REQUEST, first, nothing)).rejects.toMatchObject(error);
  });

  it.each<[string, string | Buffer]>([
    ["no JSON", "Segmentation fault\n"],
    ["no reply", line({ type: "hello" })],
    ["a reply with more than belongs there", line({ type: "connected", to: "h" })],
    ["an error without its parts", line({ type: "error", error: { code: "usage" } })],
    ["null", "null\n"],
    ["an answer to something else", line({ type: "stopping", pid: 1 })],
    ["a line without end", Buffer.alloc(2 * MAX_DIAL_LINE_BYTES, "x")],
  ])("fails, and does not crash, on %s", async (_name, answer) => {
    await FakeBroker.start(({ socket }) => socket.write(answer));
    await expect(dial(REQUEST, first, nothing)).rejects.toMatchObject({
      code: "broker-start-failed",
      message: expect.stringMatching(/makes no sense|unexpected answer/),
    });
  });

  it("dials again when the broker ends before it answers, but not for ever", async () => {
    const dials: Dial[] = [];
    await FakeBroker.start((dial) => {
      dials.push(dial);
      if (dials.length < 3) dial.socket.destroy();
      else dial.socket.write(line({ type: "connected" }));
    });
    (await dial(REQUEST, first, nothing)).socket.destroy();
    expect(dials.map(({ rest }) => rest.toString())).toEqual(Array(3).fill("first wire bytes"));

    const broker = await FakeBroker.start(({ socket }) => socket.end());
    await expect(dial(REQUEST, first, nothing)).rejects.toMatchObject({
      code: "broker-start-failed",
      message: expect.stringContaining("it ends without an answer"),
    });
    expect(broker.dials.length).toBeLessThan(10);
  });

  it("does not trust a folder that others can write to", async () => {
    const broker = await FakeBroker.start(({ socket }) => socket.write(line({ type: "connected" })));
    chmodSync(process.env.PASEO_SSH_RUNTIME_DIR!, 0o770);
    await expect(dial(REQUEST, first, nothing)).rejects.toMatchObject({ code: "runtime-folder-unsafe" });
    expect(broker.dials).toEqual([]);
  });
});

describe("what of the caller's environment matters to the broker", () => {
  it("is what names the keys and the keychain, and what is empty is none", () => {
    const matters = {
      HOME: "/h",
      PATH: "/p",
      SSH_AUTH_SOCK: "/s",
      DBUS_SESSION_BUS_ADDRESS: "unix:path=/b",
      XDG_RUNTIME_DIR: "/r",
    };
    expect(callerEnvironment({ ...matters, SECRET: "x" })).toEqual(matters);
    expect(
      callerEnvironment({ SSH_AUTH_SOCK: "", DBUS_SESSION_BUS_ADDRESS: "", XDG_RUNTIME_DIR: "", PATH: "" }),
    ).toEqual({ PATH: "" });
  });
});

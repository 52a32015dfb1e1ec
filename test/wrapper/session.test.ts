import { describe, expect, it } from "vitest";
import { FrameType } from "../../src/wire/frame.ts";
import { AGENT_SIDE } from "../../src/wire/from-client.ts";
import { newSession } from "../../src/wrapper/session.ts";

describe("a session's name", () => {
  it("is what the wire takes, and never the same", () => {
    const check = AGENT_SIDE.accepts[FrameType.Request];
    const names = Array.from({ length: 1000 }, newSession);
    for (const session of names) expect(check({ op: "abandon", session })).toEqual({ op: "abandon", session });
    expect(new Set(names).size).toBe(names.length);
  });
});

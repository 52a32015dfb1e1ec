import { describe, expect, it } from "vitest";
import { AttemptPatience } from "../../src/broker/attempt-patience.ts";

describe("the patience of an attempt to come back", () => {
  it("has no limit for a host that was never reached", () => {
    expect(new AttemptPatience().limitMs(0)).toBe(Number.POSITIVE_INFINITY);
  });

  it("is a second, or five handshakes of a slow host, and twice as much after every second failure", () => {
    const fast = new AttemptPatience();
    fast.handshakeTook(120);
    expect([0, 1, 2, 3, 4].map((failures) => fast.limitMs(failures))).toEqual([1000, 1000, 2000, 2000, 4000]);
    const slow = new AttemptPatience();
    slow.handshakeTook(900);
    expect(slow.limitMs(0)).toBe(4500);
  });

  it("does not take one handshake over a link that stood still for the host's pace, but follows it", () => {
    const patience = new AttemptPatience();
    patience.handshakeTook(100);
    patience.handshakeTook(2800);
    expect(patience.limitMs(0)).toBe(1000);
    patience.handshakeTook(2800);
    patience.handshakeTook(2800);
    expect(patience.limitMs(0)).toBe(4000);
    patience.handshakeTook(100);
    expect(patience.limitMs(0)).toBe(1000);
  });
});

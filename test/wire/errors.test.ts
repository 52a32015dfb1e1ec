import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ERROR_CODES, oneLine, RuntimeError } from "../../src/wire/errors.ts";

describe("errors", () => {
  it("become one line: cause, remedy, code", () => {
    expect(new RuntimeError("usage", "It failed", "Do this").toLine()).toBe("It failed. Do this. [usage]");
    expect(new RuntimeError("usage", "Did it fail?").toLine()).toBe("Did it fail? [usage]");
    expect(new RuntimeError("usage", "It failed…", "Now!").toLine()).toBe("It failed… Now! [usage]");
  });

  it("cross a process boundary unchanged, and an unknown code becomes an internal one", () => {
    const error = new RuntimeError("cwd-missing", "a", "b");
    expect(RuntimeError.fromData(JSON.parse(JSON.stringify(error.toData())))).toEqual(error);
    expect(RuntimeError.fromData({ code: "no-such-code", message: "m", remedy: "" }).code).toBe("internal");
    expect(RuntimeError.fromData({ code: "toString", message: "m", remedy: "" }).code).toBe("internal");
  });

  it("that are bugs of ours are told without a stack", () => {
    const bug = new TypeError("x is undefined");
    expect(RuntimeError.from(bug)).toMatchObject({
      code: "internal",
      message: "Internal error: x is undefined",
      cause: bug,
    });
    expect(RuntimeError.from("text").message).toBe("Internal error: text");
    expect(RuntimeError.from(undefined).toLine()).toMatch(/^Internal error: undefined\. Please report this/);
    const ours = new RuntimeError("usage", "m");
    expect(RuntimeError.from(ours)).toBe(ours);
  });

  it("have codes in order, once each", () => {
    expect(ERROR_CODES).toEqual([...new Set(ERROR_CODES)].sort());
  });
});

describe("text from elsewhere", () => {
  it("loses what could move a cursor or forge a line", () => {
    expect(oneLine("a\r\nb\tc")).toBe("a b c");
    expect(oneLine("\u001b[31mred\u001b[0m \u001b]0;title\u0007done\u009b1A")).toBe("red ]0;title done 1A");
    expect(oneLine("one\u2028two\u2029three\u0085four")).toBe("one two three four");
  });

  it("is always one bounded line without control characters", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 5000 }), (text) => {
        const line = oneLine(text);
        expect(line.length).toBeLessThanOrEqual(2000);
        expect(line).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/);
        expect(line).toBe(line.trim());
      }),
    );
  });

  it("is cleaned in a moment, however much there is", () => {
    const texts = ["\u001b[", "\u001b[0", "\u001b[;", " ", "\u001b[ ", "\n"].map((piece) => piece.repeat(4_000_000));
    const begin = performance.now();
    for (const text of texts) oneLine(text);
    expect(performance.now() - begin).toBeLessThan(1000);
  });
});

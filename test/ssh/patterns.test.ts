import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { matchesPattern, matchesPatternList } from "../../src/ssh/patterns.ts";

describe("matchesPattern", () => {
  it("means what the same pattern means as a regular expression", () => {
    const letters = fc.string({ unit: fc.constantFrom("a", "b", ".", "*", "?"), maxLength: 8 });
    fc.assert(
      fc.property(letters, letters, (text, pattern) => {
        const expression = pattern.replaceAll(".", "\\.").replaceAll("*", ".*").replaceAll("?", ".");
        expect(matchesPattern(text, pattern)).toBe(new RegExp(`^${expression}$`).test(text));
      }),
    );
  });

  it("takes no exponential time", () => {
    expect(matchesPattern("a".repeat(2_000), `${"*a".repeat(200)}b`)).toBe(false);
  });
});

describe("matchesPatternList", () => {
  it.each([
    ["web1", ["web*"], true],
    ["web1", ["web*", "!web1"], false],
    ["web1", ["!web1", "web*"], false],
    ["web2", ["!web1", "web?"], true],
    ["web2", ["!web1"], false],
    ["web1", [], false],
  ])("%s against %j", (text, patterns, expected) => {
    expect(matchesPatternList(text, patterns)).toBe(expected);
  });
});

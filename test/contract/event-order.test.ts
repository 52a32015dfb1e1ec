import { describe, expect, it } from "vitest";
import {
  type CommandRuntimeProcessEvent,
  CommandRuntimeProcessEventSchema,
  createCommandRuntimeProcessEventDecoder,
  encodeCommandRuntimeMessage,
} from "../../src/contract/index.ts";
import { failureOf } from "./support.ts";

/** One letter for each kind of event; a sequence of events is a word. */
const EVENTS: Record<string, CommandRuntimeProcessEvent> = {
  s: { type: "started", protocolVersion: 1 },
  r: { type: "resized", protocolVersion: 1, id: 4 },
  e: { type: "eof", protocolVersion: 1 },
  x: { type: "exit", protocolVersion: 1, code: null, signal: "SIGTERM" },
  f: { type: "error", protocolVersion: 1, message: "control channel failed" },
};

/** The rules, once more and independently: words that may stand so far, and words after which the stream may end. */
const MODEL = {
  pipes: { soFar: /^(s?|se|sex|(s?|se)f)$/, complete: /^(sex|(s?|se)f)$/ },
  pty: { soFar: /^(|sr*|sr*e|sr*ex|(|sr*|sr*e)f)$/, complete: /^(sr*ex|(|sr*|sr*e)f)$/ },
};

const WORDS = Array.from({ length: 5 }).reduce<string[]>(
  (words) => ["", ...words.flatMap((word) => Object.keys(EVENTS).map((letter) => letter + word))],
  [""],
);

describe.each(["pipes", "pty"] as const)("process events of %s", (mode) => {
  it("follow the rules for every sequence of up to five events", () => {
    expect(new Set(WORDS).size).toBe(3906);
    for (const word of WORDS) {
      const decoder = createCommandRuntimeProcessEventDecoder(mode, { code: "wire-violation" });
      let accepted = "";
      for (const letter of word) {
        if (MODEL[mode].soFar.test(accepted + letter)) {
          expect(decoder.push(lineOf(letter)), word).toEqual([EVENTS[letter]]);
          accepted += letter;
        } else {
          const failure = failureOf(() => decoder.push(lineOf(letter)), "wire-violation");
          expect(failure.message).toContain(`of a ${mode} execution are out of order`);
          break;
        }
      }
      if (accepted === word && MODEL[mode].complete.test(word)) decoder.finish();
      else failureOf(() => decoder.finish(), "wire-violation");
    }
  });

  it("are the same when they come in one chunk", () => {
    for (const word of WORDS) {
      const decoder = createCommandRuntimeProcessEventDecoder(mode);
      const text = [...word].map(lineOf).join("");
      if (MODEL[mode].soFar.test(word)) expect(decoder.push(text)).toHaveLength(word.length);
      else failureOf(() => decoder.push(text), "internal");
    }
  });
});

describe("what is wrong with the order", () => {
  it.each([
    ["pipes", "sx", /exit before eof$/],
    ["pipes", "e", /eof before started$/],
    ["pipes", "x", /exit before started$/],
    ["pipes", "ss", /duplicate started$/],
    ["pipes", "ses", /duplicate started$/],
    ["pipes", "see", /duplicate eof$/],
    ["pipes", "sexx", /duplicate exit$/],
    ["pipes", "sexe", /event after exit: eof$/],
    ["pipes", "sexf", /event after exit: error$/],
    ["pipes", "sff", /duplicate error$/],
    ["pipes", "fx", /event after error: exit$/],
    ["pipes", "sr", /pipes.*resized, which only a terminal sends$/],
    ["pty", "r", /resized before started$/],
    ["pty", "ser", /resized after eof$/],
    ["pty", "sexr", /event after exit: resized$/],
  ] as const)("is said: %s %s", (mode, word, sentence) => {
    const decoder = createCommandRuntimeProcessEventDecoder(mode);
    expect(failureOf(() => decoder.push([...word].map(lineOf).join(""))).message).toMatch(sentence);
  });

  it.each([
    ["", "nothing"],
    ["s", "started"],
    ["se", "eof"],
  ])("is said at the end after %j", (word, last) => {
    const decoder = createCommandRuntimeProcessEventDecoder("pty");
    decoder.push([...word].map(lineOf).join(""));
    expect(failureOf(() => decoder.finish(), "internal").message).toBe(
      `The process events of a pty execution ended without exit; the last was ${last}`,
    );
  });

  it("includes what the framing refuses", () => {
    const partial = createCommandRuntimeProcessEventDecoder("pipes");
    partial.push([..."sex"].map(lineOf).join(""));
    partial.push("{");
    expect(failureOf(() => partial.finish(), "internal").message).toContain("ended before newline");
    failureOf(
      () => createCommandRuntimeProcessEventDecoder("pty", { maxFrameBytes: 10 }).push(lineOf("s")),
      "internal",
    );
  });
});

function lineOf(letter: string): string {
  return encodeCommandRuntimeMessage(CommandRuntimeProcessEventSchema, EVENTS[letter] as CommandRuntimeProcessEvent);
}

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { STEPS } from "../../src/cli/doctor/examination.ts";
import { OPTION_NAMES, parseRuntimeOptions } from "../../src/ssh/options.ts";
import { MAX_DIAL_LINE_BYTES } from "../../src/wire/dial.ts";
import { ERROR_CODES, RuntimeError } from "../../src/wire/errors.ts";
import { FrameType, PREAMBLE, StreamId } from "../../src/wire/frame.ts";
import { MAX_DATA_BYTES, MESSAGE_WINDOW, STREAM_WINDOW_BYTES } from "../../src/wire/limits.ts";

/** The documentation says what the code says. */

const ROOT = resolve(import.meta.dirname, "../..");
const PAGES = ["README.md", ...readdirSync(join(ROOT, "docs")).map((name) => `docs/${name}`)];

function read(page: string): string {
  return readFileSync(join(ROOT, page), "utf8");
}

/** Without the blanks that line up the columns of tables. */
function readUnaligned(page: string): string {
  return read(page).replace(/ {2,}/g, " ");
}

/** Cells of those table rows whose first cell matches. */
function rows(page: string, first: RegExp): string[][] {
  return readUnaligned(page)
    .split("\n")
    .filter((line) => line.startsWith("| "))
    .map((line) => line.slice(2, -2).split(" | "))
    .filter(([cell]) => first.test(cell!));
}

function unquoted(cell: string): string | undefined {
  return /^`([^`]+)`$/.exec(cell)?.[1];
}

describe("docs/options.md", () => {
  const table = rows("docs/options.md", /^`[a-z][A-Za-z]*`$/);

  it("has one row for each option, in the order of the code", () => {
    expect(table.map(([name]) => unquoted(name!))).toEqual(OPTION_NAMES);
  });

  it("has the defaults of the code", () => {
    const { host: _host, ...defaults } = parseRuntimeOptions({ host: "devbox" });
    const documented = table.flatMap(([name, , value]) => {
      const text = unquoted(value!);
      return text === undefined ? [] : [[unquoted(name!), text]];
    });
    const expected = Object.entries(defaults).map(([name, value]) => [name, String(value)]);
    // A path in this column is what ssh uses, not a default of ours.
    expect(documented.filter(([name]) => name !== "sshConfigFile")).toEqual(expected);
  });

  it("has the bounds of the code", () => {
    const bounded = table.flatMap(([name, values]) => {
      const [, least, most] = /^(\d+) to (\d+)$/.exec(values!) ?? [];
      return least === undefined ? [] : [{ name: unquoted(name!)!, least: Number(least), most: Number(most) }];
    });
    expect(bounded.map(({ name }) => name)).toEqual(
      OPTION_NAMES.filter((name) => name === "port" || name.endsWith("Ms")),
    );
    for (const { name, least, most } of bounded) {
      for (const value of [least, most]) expect(accepts({ [name]: value }), `${name} ${value}`).toBe(true);
      for (const value of [least - 1, most + 1]) expect(accepts({ [name]: value }), `${name} ${value}`).toBe(false);
    }
  });

  it("has the choices of the code", () => {
    for (const name of ["hostKeyPolicy", "carrier"]) {
      const values = table.find(([cell]) => cell === `\`${name}\``)![1]!;
      const choices = [...values.matchAll(/`([^`]+)`/g)].map(([, choice]) => choice!);
      expect(choicesOf(name)).toEqual(choices);
    }
  });

  function accepts(options: Record<string, unknown>): boolean {
    try {
      parseRuntimeOptions({ host: "devbox", ...options });
      return true;
    } catch (error) {
      if (error instanceof RuntimeError) return false;
      throw error;
    }
  }

  /** The message about a wrong choice names all of them. */
  function choicesOf(name: string): string[] {
    try {
      parseRuntimeOptions({ host: "devbox", [name]: "?" });
    } catch (error) {
      return [...(error as Error).message.replace(`"${name}"`, "").matchAll(/"([^"]+)"/g)].map(([, choice]) => choice!);
    }
    throw new Error(`${name} takes anything`);
  }
});

describe("error codes", () => {
  it("have one entry each in docs/troubleshooting.md", () => {
    const entries = [...read("docs/troubleshooting.md").matchAll(/^## (.+)$/gm)].map(([, title]) => unquoted(title!));
    expect(entries.filter((title) => title !== undefined)).toEqual(ERROR_CODES);
  });

  it("are known wherever a page names one in brackets or calls one a code", () => {
    for (const page of PAGES) {
      const named = [...read(page).matchAll(/\[([a-z]+(?:-[a-z]+)+)\](?!\()/g), ...codeLike(read(page))].map(
        ([, code]) => code,
      );
      for (const code of named) expect(ERROR_CODES, page).toContain(code);
    }
  });

  /** Words in backquotes that have the form of a code and begin or end as codes do. */
  function codeLike(text: string): RegExpMatchArray[] {
    const ends = "lost|unknown|refused|timeout|failed|missing|invalid|changed|revoked|violation|exceeded|unsafe|reused";
    return [...text.matchAll(new RegExp(`\`([a-z]+(?:-[a-z]+)*-(?:${ends}))\``, "g"))];
  }
});

describe("docs/troubleshooting.md", () => {
  it("has the steps of the doctor", () => {
    const table = rows("docs/troubleshooting.md", /^`[a-z-]+`$/);
    expect(table.map(([step]) => unquoted(step!))).toEqual(STEPS);
  });
});

describe("docs/wire-protocol.md", () => {
  const frames = rows("docs/wire-protocol.md", /^\d+$/).filter((cells) => cells.length === 5);

  it("has all frame types", () => {
    const types = Object.values(FrameType).filter((type): type is FrameType => typeof type === "number");
    expect(frames.map(([number, name]) => `${number} ${name}`)).toEqual(
      types.map((type) => `${type} ${FrameType[type]}`),
    );
  });

  it("has the numbers of the code", () => {
    const text = readUnaligned("docs/wire-protocol.md");
    for (const stream of [StreamId.Stdin, StreamId.Stdout, StreamId.Stderr, StreamId.Upload]) {
      expect(text).toContain(`${stream} ${StreamId[stream].toLowerCase()}`);
    }
    expect(frames.find(([, name]) => name === "Data")![3]).toBe(String(9 + MAX_DATA_BYTES));
    expect(text).toContain(`Data only: 1 to ${MAX_DATA_BYTES} bytes`);
    expect(text).toContain(`| stdin | client | ${STREAM_WINDOW_BYTES} bytes |`);
    expect(text).toContain(`| ${MESSAGE_WINDOW} messages |`);
    expect(text).toContain(`at most ${MAX_DIAL_LINE_BYTES} bytes each`);
    const [, ...preamble] = rows("docs/wire-protocol.md", /^value$/)[0]!;
    expect(preamble.map((cell) => Number(/(0x[0-9a-f]{2}|\d+)$/.exec(cell)![1]))).toEqual([...PREAMBLE]);
  });
});

describe("every page", () => {
  it.for(PAGES)("%s has no dead link", (page) => {
    for (const [, target] of read(page).matchAll(/\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)/g)) {
      expect(existsSync(join(ROOT, dirname(page), target!)), target).toBe(true);
    }
  });

  it.for(PAGES)("%s has examples that the runtime accepts", (page) => {
    for (const [, text] of read(page).matchAll(/```json\n(.*?)```/gs)) {
      const example = JSON.parse(text!);
      const entries = example.workspaceRuntimes ? Object.values<typeof example>(example.workspaceRuntimes) : [example];
      for (const { options } of entries) expect(() => parseRuntimeOptions(options)).not.toThrow();
    }
  });
});

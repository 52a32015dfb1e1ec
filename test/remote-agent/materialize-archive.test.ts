import { chmodSync, chownSync, readdirSync, readFileSync, statSync } from "node:fs";
import { Readable } from "node:stream";
import { Header } from "tar";
import { expect, test } from "vitest";
import { extractArchive } from "../../remote-agent/materialize/extract.ts";
import { materialize, removeTree } from "../../remote-agent/materialize/index.ts";
import { exists, rechunked, useFixture, write } from "../workspace/fixture.ts";

const fixture = useFixture();

interface Entry {
  path: string;
  type?: "File" | "Directory" | "SymbolicLink" | "Link" | "FIFO" | "CharacterDevice";
  linkpath?: string;
  text?: string;
}

/** A tar archive as no well-meaning program would write it. */
function archive(entries: Entry[], options: { end?: boolean } = {}): Buffer {
  const blocks: Buffer[] = [];
  for (const { path, type = "File", linkpath, text = "" } of entries) {
    const header = new Header({
      path,
      type,
      mode: type === "Directory" ? 0o444 : 0o644,
      size: text.length,
      mtime: new Date(0),
      ...(linkpath ? { linkpath } : {}),
    });
    header.encode();
    blocks.push(header.block!);
    if (text) blocks.push(Buffer.concat([Buffer.from(text)], Math.ceil(text.length / 512) * 512));
  }
  return Buffer.concat([...blocks, ...(options.end === false ? [] : [Buffer.alloc(1024)])]);
}

function extract(bytes: Buffer) {
  const f = fixture();
  const input = f.input({ kind: "directory", key: "k" });
  const supply = async () => ({ manifest: { kind: "plain" as const }, stream: rechunked(Readable.from([bytes])) });
  return { input, made: materialize({ ...input, supply }) };
}

test.each<[string, Entry[]]>([
  ["a name with ..", [{ path: "../escaped", text: "x" }]],
  ["a name with .. in its middle", [{ path: "a/../../escaped", text: "x" }]],
  ["an absolute name", [{ path: "/tmp/escaped-absolutely", text: "x" }]],
  [
    "a file through a link",
    [
      { path: "out", type: "SymbolicLink", linkpath: ".." },
      { path: "out/escaped", text: "x" },
    ],
  ],
  [
    "a link through a link",
    [
      { path: "out", type: "SymbolicLink", linkpath: ".." },
      { path: "out/escaped", type: "SymbolicLink", linkpath: "x" },
    ],
  ],
  [
    "a folder over a link",
    [
      { path: "out", type: "SymbolicLink", linkpath: ".." },
      { path: "out", type: "Directory" },
      { path: "out/x", text: "x" },
    ],
  ],
  ["a hard link to the outside", [{ path: "hard", type: "Link", linkpath: "../outside" }]],
  ["a hard link to an absolute name", [{ path: "hard", type: "Link", linkpath: "/etc/passwd" }]],
  ["a hard link to nothing", [{ path: "hard", type: "Link", linkpath: "missing" }]],
  [
    "the same file twice",
    [
      { path: "a", text: "1" },
      { path: "a", text: "2" },
    ],
  ],
  [
    "a file below a file",
    [
      { path: "a", text: "1" },
      { path: "a/b", text: "2" },
    ],
  ],
  ["a device", [{ path: "null", type: "CharacterDevice" }]],
  ["a named pipe", [{ path: "pipe", type: "FIFO" }]],
])("%s is refused, and nothing is written outside", async (_name, entries) => {
  const f = fixture();
  write(f.path("host", "workspaces", "w1", "outside"), "before");
  const { input, made } = extract(archive(entries));
  await expect(made).rejects.toMatchObject({ code: "wire-violation" });
  expect(exists(input.contentPath)).toBe(false);
  expect(readdirSync(f.path("host", "workspaces", "w1"))).toEqual(["outside"]);
  expect(readFileSync(f.path("host", "workspaces", "w1", "outside"), "utf8")).toBe("before");
  expect(exists("/tmp/escaped-absolutely")).toBe(false);
});

test.each<[string, Buffer]>([
  ["without its end", archive([{ path: "a", text: "1" }], { end: false })],
  ["cut inside a file", archive([{ path: "a", text: "x".repeat(5000) }]).subarray(0, 2000)],
  ["of nothing", Buffer.alloc(0)],
  ["that is none", Buffer.alloc(4096, "garbage")],
])("an archive %s is refused", async (_name, bytes) => {
  const { input, made } = extract(bytes);
  await expect(made).rejects.toMatchObject({ code: "wire-violation" });
  expect(exists(input.contentPath)).toBe(false);
});

test("a stream that fails in the middle passes on its own reason", async () => {
  const f = fixture();
  const input = f.input({ kind: "directory", key: "k" });
  const bytes = archive([{ path: "a", text: "x".repeat(5000) }]).subarray(0, 2000);
  const broken = Readable.from(
    (async function* () {
      yield bytes;
      throw new Error("the link was lost");
    })(),
  );
  const made = materialize({ ...input, supply: async () => ({ manifest: { kind: "plain" }, stream: broken }) });
  await expect(made).rejects.toThrow("the link was lost");
  expect(exists(input.contentPath)).toBe(false);
});

test("missing parents are made, and an archive that names a folder later sets its permissions", async () => {
  const { input, made } = extract(
    archive([
      { path: "a/b/c", text: "1" },
      { path: "a/b", type: "Directory" },
      { path: "a/link", type: "SymbolicLink", linkpath: "b/c" },
    ]),
  );
  await made;
  expect(readFileSync(`${input.contentPath}/a/link`, "utf8")).toBe("1");
});

test("what is left of a failure can be removed although its folders are read-only", async () => {
  const f = fixture();
  write(f.path("x", "a", "b", "c"), "1");
  for (const folder of [["x"], ["x", "a"], ["x", "a", "b"], ["x", "a", "b", "c"]]) giveAway(f.path(...folder));
  giveAway(f.folder);
  chmodSync(f.path("x", "a", "b"), 0o500);
  chmodSync(f.path("x", "a"), 0o500);
  await asUnprivileged(() => removeTree(f.path("x")));
  expect(exists(f.path("x"))).toBe(false);
  await removeTree(f.path("x"));
});

test("a folder without permission to write is filled first", async () => {
  const f = fixture();
  giveAway(f.folder);
  giveAway(f.newContentPath().replace(/\/content$/, ""));
  const bytes = archive([
    { path: "locked", type: "Directory" },
    { path: "locked/inside", text: "1" },
  ]);
  const target = f.path("host", "workspaces", "w1", "content");
  await asUnprivileged(() => extractArchive(Readable.from([bytes]), target, new AbortController().signal));
  expect(readFileSync(`${target}/locked/inside`, "utf8")).toBe("1");
  expect(statSync(`${target}/locked`).mode & 0o777).toBe(0o444);
});

const NOBODY = 65534;

/** Permissions do not bind root, so that as root these tests would show nothing. */
async function asUnprivileged(task: () => Promise<void>): Promise<void> {
  if (process.getuid?.() !== 0) return task();
  process.seteuid?.(NOBODY);
  try {
    await task();
  } finally {
    process.seteuid?.(0);
  }
}

function giveAway(path: string): void {
  if (process.getuid?.() === 0) chownSync(path, NOBODY, NOBODY);
}

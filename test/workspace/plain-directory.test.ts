import { execFileSync } from "node:child_process";
import {
  chmodSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  symlinkSync,
  utimesSync,
} from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { materialize } from "../../remote-agent/materialize/index.ts";
import { RuntimeError } from "../../src/wire/errors.ts";
import { openDirectorySource } from "../../src/workspace/index.ts";
import { exists, useFixture, write } from "./fixture.ts";

const fixture = useFixture();
const signal = new AbortController().signal;

test("a plain directory arrives as it is", async () => {
  const f = fixture();
  const path = f.path("plain folder");
  const long = join("deep", "x".repeat(120), "y".repeat(120), "file");
  write(join(path, "a.txt"), "hello");
  write(join(path, "empty.txt"), "");
  write(join(path, long), "far down");
  write(join(path, "täglich ☃ -x"), "unicode");
  write(join(path, "new\nline"), "newline");
  write(join(path, "big.bin"), Buffer.alloc(3_000_000, "abc"));
  mkdirSync(join(path, "empty folder"));
  mkdirSync(join(path, "readonly"));
  write(join(path, "readonly", "inside"), "x");
  chmodSync(join(path, "readonly"), 0o555);
  chmodSync(join(path, "a.txt"), 0o664);
  chmodSync(join(path, "empty.txt"), 0o400);
  symlinkSync("/etc/hostname", join(path, "absolute"));
  symlinkSync("../../outside", join(path, "upwards"));
  symlinkSync("nowhere", join(path, "dangling"));
  symlinkSync("deep", join(path, "folder link"));
  linkSync(join(path, "a.txt"), join(path, "hard"));
  execFileSync("mkfifo", [join(path, "pipe")]);
  const time = new Date("2020-02-02T02:02:02Z");
  utimesSync(join(path, "a.txt"), time, time);
  utimesSync(join(path, "empty folder"), time, time);

  const made = await f.fromDirectory(path, { workspaceId: "w", paseoConfig: '{"a":1}' });
  expect(made).toMatchObject({ kind: "plain", root: "" });
  expect(made.branch).toBeUndefined();
  const listing = (at: string) =>
    execFileSync(
      "find",
      [
        ".",
        "(",
        "-name",
        "pipe",
        "-o",
        "-name",
        "paseo.json",
        "-o",
        "-path",
        ".",
        ")",
        "-o",
        "-printf",
        "%p %y %m %s %n %l %Ts\\0",
      ],
      {
        cwd: at,
        encoding: "utf8",
      },
    )
      .split("\0")
      .map((line) => (/ d /.test(line) ? line.replace(/ d (\d+) \d+ \d+/, " d $1") : line))
      .sort();
  expect(listing(made.path)).toEqual(listing(path));
  expect(readFileSync(join(made.path, long), "utf8")).toBe("far down");
  expect(readFileSync(join(made.path, "big.bin")).equals(readFileSync(join(path, "big.bin")))).toBe(true);
  expect(readlinkSync(join(made.path, "absolute"))).toBe("/etc/hostname");
  expect(lstatSync(join(made.path, "a.txt")).ino).toBe(lstatSync(join(made.path, "hard")).ino);
  expect(exists(made.path, "pipe")).toBe(false);
  expect(f.progress).toContain("1 socket, pipe or device left behind.");
  expect(readFileSync(join(made.path, "paseo.json"), "utf8")).toBe('{"a":1}');
});

test("an empty directory arrives, and a folder of it can be the root", async () => {
  const f = fixture();
  mkdirSync(f.path("empty"));
  expect(exists((await f.fromDirectory(f.path("empty"))).path)).toBe(true);
  write(f.path("some", "web", "x"), "1");
  const made = await f.fromDirectory(f.path("some"), { placement: { kind: "existing", relativeCwd: "./web/" } });
  expect(made.root).toBe("web");
});

test("only `existing` can be placed from a plain directory", async () => {
  const f = fixture();
  mkdirSync(f.path("plain"));
  const opened = openDirectorySource(
    f.path("plain"),
    { kind: "checkout", ref: "main" },
    { commits: [] },
    signal,
    () => {},
  );
  await expect(opened).rejects.toMatchObject({
    code: "source-unsupported",
    message: expect.stringContaining(f.path("plain")),
  });
  const made = f.fromDirectory(f.path("plain"), { placement: { kind: "branch", branchName: "a", baseRef: "main" } });
  await expect(made).rejects.toMatchObject({ code: "source-unsupported" });
});

test("a missing directory and a file are named", async () => {
  const f = fixture();
  write(f.path("file"), "1");
  const open = (path: string) => openDirectorySource(path, { kind: "existing" }, { commits: [] }, signal, () => {});
  await expect(open(f.path("gone"))).rejects.toMatchObject({
    code: "source-missing",
    message: expect.stringMatching(/gone does not exist/),
  });
  await expect(open(f.path("file"))).rejects.toMatchObject({
    code: "source-missing",
    message: expect.stringMatching(/file is not a directory/),
  });
});

test("a name that is not UTF-8 is a clear error, and nothing is left on the host", async () => {
  const f = fixture();
  mkdirSync(f.path("plain"));
  execFileSync("bash", ["-c", "printf raw > $'bad-\\xff'"], { cwd: f.path("plain") });
  const input = f.input({ kind: "directory", key: "k" });
  const made = materialize({
    ...input,
    supply: (have) => openDirectorySource(f.path("plain"), input.placement, have, input.signal, () => {}),
  });
  await expect(made).rejects.toMatchObject({
    code: "source-unreadable",
    message: expect.stringContaining("not valid UTF-8"),
  });
  expect(exists(input.contentPath)).toBe(false);
});

test("cancelling ends the extraction with the reason that was given", async () => {
  const f = fixture();
  write(f.path("plain", "big"), Buffer.alloc(20_000_000));
  const controller = new AbortController();
  const reason = new RuntimeError("connection-lost", "gone");
  const made = f.fromDirectory(f.path("plain"), {
    signal: controller.signal,
    progress: (text) => text.startsWith("Extracting") && controller.abort(reason),
  });
  await expect(made).rejects.toBe(reason);
  expect(exists(f.path("host", "workspaces", "w1", "content"))).toBe(false);
});

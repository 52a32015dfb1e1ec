import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, readdirSync, readFileSync, statSync, truncateSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { describe, expect, it } from "vitest";
import { HelperStore } from "../../remote-agent/helper.ts";
import type { HelperIdentity } from "../../src/wire/from-client.ts";
import { scratchFolder } from "../support/scratch-folder.ts";

const COMMAND = "paseo-workspace-helper";
const SCRIPT = "console.log(JSON.stringify({ args: process.argv.slice(2), names: Object.keys(process.env) }));\n";
const PROGRAM = '#!/bin/sh\necho program "$@"\n';

function identity(content: string, changes: Partial<HelperIdentity> = {}): HelperIdentity {
  const sha256 = createHash("sha256").update(content).digest("hex");
  return { sha256, size: Buffer.byteLength(content), fileName: `${COMMAND}.cjs`, interpreter: "node", ...changes };
}

const binary = (content: string) => identity(content, { fileName: COMMAND, interpreter: "none" });

/** In pieces, as they come from the wire. */
function bytes(content: string): Readable {
  return Readable.from([Buffer.from(content.slice(0, 5)), Buffer.from(content.slice(5))]);
}

/** Runs it as a workload whose environment is empty. */
function run(store: HelperStore, helper: HelperIdentity, ...args: string[]): string {
  const result = spawnSync(join(store.folder(helper), COMMAND), args, { env: {}, encoding: "utf8" });
  expect(result.stderr).toBe("");
  return result.stdout;
}

describe("the store of helpers", () => {
  it("makes a node script a command that works with an empty environment", async () => {
    const root = join(scratchFolder(), "with 'quotes' and $dollars");
    const store = new HelperStore(root);
    const helper = identity(SCRIPT);
    expect(store.has(helper)).toBe(false);
    await store.receive(helper, bytes(SCRIPT));
    expect(store.has(helper)).toBe(true);
    const args = ["describe", "a b", "$HOME", "'"];
    expect(JSON.parse(run(store, helper, ...args)).args).toEqual(args);
    expect(readdirSync(root)).toEqual([helper.sha256]);
    expect(readdirSync(store.folder(helper)).sort()).toEqual([COMMAND, `${COMMAND}.cjs`]);
    expect(statSync(store.folder(helper)).mode & 0o777).toBe(0o700);
  });

  it("keeps a program as it is", async () => {
    const store = new HelperStore(scratchFolder());
    const helper = binary(PROGRAM);
    await store.receive(helper, bytes(PROGRAM));
    expect(run(store, helper, "a", "b")).toBe("program a b\n");
    expect(readdirSync(store.folder(helper))).toEqual([COMMAND]);
    expect(statSync(join(store.folder(helper), COMMAND)).mode & 0o777).toBe(0o700);
  });

  it("finds what an earlier agent put there, and renews a launcher for another node", async () => {
    const root = scratchFolder();
    const helper = identity(SCRIPT);
    await new HelperStore(root).receive(helper, bytes(SCRIPT));
    const launcher = join(root, helper.sha256, COMMAND);
    writeFileSync(launcher, "#!/bin/sh\nexec '/gone/node' x\n");
    const store = new HelperStore(root);
    expect(store.has(helper)).toBe(true);
    expect(JSON.parse(run(store, helper, "x")).args).toEqual(["x"]);
    expect(readFileSync(launcher, "utf8")).toContain(process.execPath);
    unlinkSync(launcher);
    expect(store.has(helper)).toBe(true);
    expect(JSON.parse(run(store, helper, "x")).args).toEqual(["x"]);
  });

  it.each<[string, HelperIdentity, () => Readable, RegExp]>([
    ["a wrong checksum", identity(SCRIPT, { sha256: "0".repeat(64) }), () => bytes(SCRIPT), /its checksum is wrong/],
    [
      "other bytes of the same length",
      identity(SCRIPT),
      () => bytes(SCRIPT.replace("log", "err")),
      /checksum is wrong/,
    ],
    ["too few bytes", identity(SCRIPT), () => bytes(SCRIPT.slice(0, -1)), /checksum is wrong/],
    ["no bytes", identity(SCRIPT), () => Readable.from([]), /checksum is wrong/],
    [
      "more bytes than announced",
      identity(SCRIPT, { size: 10 }),
      () => bytes(SCRIPT),
      /more bytes came than announced/,
    ],
    ["an endless stream", identity(SCRIPT), () => endless(), /more bytes came than announced/],
    ["a size that is none", identity(SCRIPT, { size: 1024 ** 3 }), () => bytes(SCRIPT), /it is too large/],
    ["a client that goes away", identity(SCRIPT), () => broken(), /went away/],
  ])("refuses %s and leaves nothing behind", async (_name, helper, stream, message) => {
    const root = scratchFolder();
    const store = new HelperStore(root);
    await expect(store.receive(helper, stream())).rejects.toThrow(message);
    expect(store.has(helper)).toBe(false);
    expect(readdirSync(root)).toEqual([]);
  });

  it("takes the same helper from several clients at once", async () => {
    const root = scratchFolder();
    const helper = identity(SCRIPT);
    const stores = [new HelperStore(root), new HelperStore(root)];
    await Promise.all(Array.from({ length: 12 }, (_, index) => stores[index % 2]!.receive(helper, bytes(SCRIPT))));
    for (const store of stores) expect(store.has(helper)).toBe(true);
    expect(readdirSync(root)).toEqual([helper.sha256]);
    expect(JSON.parse(run(stores[0]!, helper)).args).toEqual([]);
  });

  it("does not trust a file that was damaged, and takes it anew", async () => {
    const root = scratchFolder();
    const helper = binary(PROGRAM);
    await new HelperStore(root).receive(helper, bytes(PROGRAM));
    truncateSync(join(root, helper.sha256, COMMAND), 3);
    const store = new HelperStore(root);
    expect(store.has(helper)).toBe(false);
    await store.receive(helper, bytes(PROGRAM));
    expect(run(store, helper, "again")).toBe("program again\n");
  });

  it("takes one content under two names", async () => {
    const store = new HelperStore(scratchFolder());
    await store.receive(identity(SCRIPT), bytes(SCRIPT));
    const renamed = identity(SCRIPT, { fileName: `${COMMAND}.mjs` });
    if (!store.has(renamed)) await store.receive(renamed, bytes(SCRIPT));
    expect(JSON.parse(run(store, renamed, "x")).args).toEqual(["x"]);
  });

  it("says so when the disk refuses", async () => {
    const root = join(scratchFolder(), "file");
    writeFileSync(root, "where the folder should be");
    chmodSync(root, 0o600);
    await expect(new HelperStore(root).receive(identity(SCRIPT), bytes(SCRIPT))).rejects.toMatchObject({
      code: "deploy-failed",
      message: expect.stringMatching(/could not be put on the build host \(.*(EEXIST|ENOTDIR)/),
    });
  });
});

function endless(): Readable {
  return new Readable({
    read() {
      this.push(Buffer.alloc(1000));
    },
  });
}

function broken(): Readable {
  return Readable.from(
    (async function* () {
      yield Buffer.from(SCRIPT.slice(0, 5));
      throw new Error("The client went away");
    })(),
  );
}

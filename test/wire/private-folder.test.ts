import { chmodSync, chownSync, lstatSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { isPrivateFolder, securePrivateFolder } from "../../src/wire/private-folder.ts";
import { scratchFolder } from "../support/scratch-folder.ts";

const STRANGER = 12_345;

describe("a private folder", () => {
  it("is made with its parents, for nobody else, whatever the umask", () => {
    const path = join(scratchFolder(), "a", "b");
    const before = process.umask(0);
    try {
      expect(isPrivateFolder(path)).toBe(false);
      securePrivateFolder(path);
    } finally {
      process.umask(before);
    }
    expect(lstatSync(path).mode & 0o777).toBe(0o700);
    expect(lstatSync(join(path, "..")).mode & 0o777).toBe(0o700);
    expect(isPrivateFolder(path)).toBe(true);
    securePrivateFolder(path);
  });

  it.each([0o750, 0o701, 0o770, 0o707, 0o720, 0o704])("is refused with mode %o", (mode) => {
    const path = join(scratchFolder(), "run");
    mkdirSync(path);
    chmodSync(path, mode);
    refuses(path, /is open to other users/);
  });

  it("is refused when it belongs to somebody else", () => {
    const path = join(scratchFolder(), "run");
    mkdirSync(path, { mode: 0o700 });
    chownSync(path, STRANGER, STRANGER);
    refuses(path, /belongs to another user/);
  });

  it("is refused when a link, a file or a dead link stands in its place", () => {
    const folder = scratchFolder();
    mkdirSync(join(folder, "real"), { mode: 0o700 });
    symlinkSync("real", join(folder, "link"));
    symlinkSync("nowhere", join(folder, "dead"));
    writeFileSync(join(folder, "file"), "");
    for (const name of ["link", "dead", "file"]) refuses(join(folder, name), /is not a folder/);
  });

  it("is refused with a reason when it cannot be made", () => {
    const folder = scratchFolder();
    writeFileSync(join(folder, "file"), "");
    expect(() => securePrivateFolder(join(folder, "file", "run"))).toThrow(
      expect.objectContaining({ code: "runtime-folder-unsafe", message: expect.stringContaining("cannot be made") }),
    );
  });
});

function refuses(path: string, message: RegExp): void {
  for (const action of [securePrivateFolder, isPrivateFolder]) {
    expect(() => action(path)).toThrow(
      expect.objectContaining({ code: "runtime-folder-unsafe", message: expect.stringMatching(message) }),
    );
  }
}

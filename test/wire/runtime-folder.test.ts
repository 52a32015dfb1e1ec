import { statSync } from "node:fs";
import { resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { runtimeFolder } from "../../src/wire/runtime-folder.ts";

describe("the runtime folder", () => {
  it("is what PASEO_SSH_RUNTIME_DIR says, absolute, since the broker works elsewhere", () => {
    expect(runtimeFolder({ PASEO_SSH_RUNTIME_DIR: "/somewhere/else" })).toBe("/somewhere/else");
    expect(runtimeFolder({ PASEO_SSH_RUNTIME_DIR: "somewhere" })).toBe(resolve("somewhere"));
  });

  it("is otherwise the same in every environment of this user, and short", () => {
    const folder = runtimeFolder({});
    for (const env of [{ PASEO_SSH_RUNTIME_DIR: "" }, { XDG_RUNTIME_DIR: "/run/user/7" }, { TMPDIR: "/var/tmp" }]) {
      expect(runtimeFolder(env)).toBe(folder);
    }
    const uid = process.getuid!();
    const systemd = statSync(`/run/user/${uid}`, { throwIfNoEntry: false })?.uid === uid;
    expect(folder).toBe(systemd ? `/run/user/${uid}/paseo-ssh-runtime` : `/tmp/paseo-ssh-runtime-${uid}`);
    // A pid, the longest name of ours and ".sock" still fit into the 103 bytes that macOS allows.
    expect(folder.length).toBeLessThan(60);
  });
});

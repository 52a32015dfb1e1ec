import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { configFromFiles } from "../../src/ssh/ssh-config-files.ts";
import { RuntimeError } from "../../src/wire/errors.ts";
import { query, temporaryFolder } from "./support.ts";

function home(config: string, mode = 0o600): string {
  const folder = temporaryFolder();
  mkdirSync(join(folder, ".ssh"), { mode: 0o700 });
  writeFileSync(join(folder, ".ssh", "config"), config);
  chmodSync(join(folder, ".ssh", "config"), mode);
  return folder;
}

function read(config: string, host = "devbox") {
  return configFromFiles(query(host, { home: home(config) }));
}

describe("configFromFiles", () => {
  it("works without any file", () => {
    const folder = temporaryFolder();
    const values = configFromFiles(query("devbox", { home: folder }));
    expect(values.get("hostname")).toEqual(["devbox"]);
    expect(values.get("userknownhostsfile")).toEqual([`${folder}/.ssh/known_hosts`, `${folder}/.ssh/known_hosts2`]);
  });

  it("follows includes from ~/.ssh, and stops at loops", () => {
    const folder = home("Include conf.d/* missing\nHost devbox\n  User last\n");
    mkdirSync(join(folder, ".ssh", "conf.d", "folder"), { recursive: true });
    writeFileSync(join(folder, ".ssh", "conf.d", "b"), "Host devbox\n  User b\n  Port 2\n");
    writeFileSync(join(folder, ".ssh", "conf.d", "a"), "Host devbox\n  User a\n");
    writeFileSync(join(folder, ".ssh", "conf.d", ".hidden"), "User hidden\n");
    const values = configFromFiles(query("devbox", { home: folder }));
    expect(values.get("user")).toEqual(["a"]);
    expect(values.get("port")).toEqual(["2"]);
    expect(() => read("Include config")).toThrow(/include each other/);
  });

  it.each([
    ["Match exec true\n  User x\n", "Match exec"],
    ["Match host devbox exec true\n  User x\n", "Match exec"],
    ["Match final\n  User x\n", "Match final"],
    ["CanonicalizeHostname yes\n", "CanonicalizeHostname"],
    ['IdentityFile "unfinished\n', "cannot be read"],
  ])("refuses what only ssh can decide: %j", (config, named) => {
    expect(() => read(config)).toThrow(RuntimeError);
    expect(() => read(config)).toThrow(named);
  });

  it("leaves out what stands behind conditions that do not hold", () => {
    expect(read("Match user other exec true\n  User x\n").get("user")).toBeUndefined();
    expect(read("Match !host devbox\n  User x\nMatch !host other localuser dev all\n  User y\n").get("user")).toEqual([
      "y",
    ]);
  });

  it.each([
    [`ProxyCommand sh -c 'exec "$0" "$1"' %h %p`, `sh -c 'exec "$0" "$1"' %h %p`],
    [`\tproxycommand = "/a b/nc"  -x #not a comment  `, `"/a b/nc"  -x #not a comment`],
    ["ProxyCommand=nc %h %p", "nc %h %p"],
  ])("leaves a command to the shell: %s", (line, command) => {
    expect(read(`Host devbox\n${line}\n`).get("proxycommand")).toEqual([command]);
  });

  it("refuses a file that others may write", () => {
    expect(() => configFromFiles(query("devbox", { home: home("User x\n", 0o666) }))).toThrow(/written by others/);
  });

  it("refuses a file that was named and is not there", () => {
    expect(() => configFromFiles(query("devbox", { configFile: "/nonexistent/config" }))).toThrow(/cannot be read/);
  });
});

import { hostname, userInfo } from "node:os";
import { describe, expect, it } from "vitest";
import type { RuntimeOptions } from "../../src/ssh/options.ts";
import { targetKey, targetName } from "../../src/ssh/target.ts";
import { RuntimeError } from "../../src/wire/errors.ts";
import { HOME, targetFrom } from "./support.ts";

describe("combine", () => {
  it("takes what ssh_config says", () => {
    const target = targetFrom({
      hostname: ["Build.Example.Test"],
      port: ["2222"],
      user: ["builder"],
      addressfamily: ["inet6"],
      bindaddress: ["10.0.0.9"],
      identityfile: ["~/.ssh/%r_%h", "/keys/%d/%n/%p/%k/%u/%%", "none"],
      certificatefile: ["~/cert"],
      identitiesonly: ["yes"],
      identityagent: ["/run/%u.sock"],
      userknownhostsfile: ["~/.ssh/kh", "/kh2"],
      globalknownhostsfile: ["none"],
      hostkeyalias: ["farm"],
      hashknownhosts: ["yes"],
      proxycommand: ["nc %h %p"],
      knownhostscommand: ["/bin/kh %H"],
    });
    expect(target).toMatchObject({
      alias: "devbox",
      host: "build.example.test",
      port: 2222,
      user: "builder",
      addressFamily: "inet6",
      bindAddress: "10.0.0.9",
      identityFiles: [`${HOME}/.ssh/builder_build.example.test`, `/keys/${HOME}/devbox/2222/farm/dev/%`],
      defaultIdentityFiles: [],
      certificateFiles: [`${HOME}/cert`],
      identitiesOnly: true,
      identityAgent: { kind: "socket", path: "/run/dev.sock" },
      userKnownHostsFiles: [`${HOME}/.ssh/kh`, "/kh2"],
      globalKnownHostsFiles: [],
      hostKeyAlias: "farm",
      hashKnownHosts: true,
      proxyCommand: "nc %h %p",
      knownHostsCommand: "/bin/kh %H",
    });
  });

  it("prefers the options", () => {
    const options: Partial<RuntimeOptions> = {
      user: "me",
      port: 23,
      identityFile: "~/mine",
      identitiesOnly: false,
      knownHostsFile: "~/kh",
      proxyJump: "none",
    };
    const config = {
      user: ["builder"],
      port: ["2222"],
      identityfile: ["/theirs"],
      identitiesonly: ["yes"],
      userknownhostsfile: ["/kh"],
      proxyjump: ["jump"],
    };
    const target = targetFrom(config, options);
    expect(target).toMatchObject({ user: "me", port: 23, identitiesOnly: false });
    expect(target.identityFiles).toEqual([`${HOME}/mine`, "/theirs"]);
    expect(target.userKnownHostsFiles).toEqual([`${HOME}/kh`]);
    expect(target).not.toHaveProperty("proxyJump");
    expect(targetFrom({ proxycommand: ["nc"] }, { proxyJump: "other" })).toMatchObject({ proxyJump: "other" });
    expect(targetFrom({ proxycommand: ["nc"] }, { proxyJump: "other" })).not.toHaveProperty("proxyCommand");
  });

  it("tries the default identity files only when none is configured", () => {
    const files = [`${HOME}/.ssh/id_rsa`, `${HOME}/.ssh/id_ecdsa`, `${HOME}/.ssh/id_ed25519`];
    expect(targetFrom({}).defaultIdentityFiles).toEqual(files);
    expect(targetFrom({ identityfile: ["none"] })).toMatchObject({ identityFiles: [], defaultIdentityFiles: [] });
    expect(targetFrom({}, { identityFile: "/mine" })).toMatchObject({
      identityFiles: ["/mine"],
      defaultIdentityFiles: [],
    });
  });

  it.each([
    [undefined, { kind: "caller" }],
    ["SSH_AUTH_SOCK", { kind: "caller" }],
    ["none", { kind: "none" }],
    ["$SSH_AUTH_SOCK", { kind: "socket", path: "/run/agent" }],
    // biome-ignore lint/suspicious/noTemplateCurlyInString: ssh_config writes variables like this
    ["${SSH_AUTH_SOCK}.2", { kind: "socket", path: "/run/agent.2" }],
  ])("reads IdentityAgent %s", (value, expected) => {
    const config: Record<string, string[]> = value === undefined ? {} : { identityagent: [value] };
    expect(targetFrom(config, {}, { SSH_AUTH_SOCK: "/run/agent" }).identityAgent).toEqual(expected);
  });

  it.each([
    ["~root/key", "another account"],
    // biome-ignore lint/suspicious/noTemplateCurlyInString: ssh_config writes variables like this
    ["${NOWHERE}/key", "NOWHERE"],
    ["/keys/%C", "%C"],
    ["/keys/%", "%"],
  ])("refuses what it cannot expand: %s", (value, named) => {
    const attempt = () => targetFrom({ identityfile: [value] });
    expect(attempt).toThrow(RuntimeError);
    expect(attempt).toThrow(named);
  });

  it("knows the local host and account in tokens", () => {
    const target = targetFrom({ identityfile: ["/k/%l/%L/%i"] });
    expect(target.identityFiles).toEqual([`/k/${hostname()}/${hostname().split(".")[0]}/${userInfo().uid}`]);
  });
});

describe("targetKey", () => {
  const base = targetFrom({});

  it("does not depend on limits and on the name that was used", () => {
    const other = { ...base, alias: "x", connectTimeoutMs: 1, keepaliveIntervalMs: 1 };
    expect(targetKey(other)).toBe(targetKey(base));
    expect(targetKey(Object.fromEntries(Object.entries(base).reverse()) as unknown as typeof base)).toBe(
      targetKey(base),
    );
    expect(targetKey(base)).toMatch(/^[0-9a-f]{32}$/);
  });

  it("depends on everything that decides where, as whom and how safely we connect", () => {
    const variants = [
      { host: "other" },
      { port: 23 },
      { user: "other" },
      { identityFiles: ["/a"] },
      { identitiesOnly: true },
      { identityAgent: { kind: "none" } as const },
      { userKnownHostsFiles: ["/b"] },
      { globalKnownHostsFiles: ["/b"] },
      { hostKeyAlias: "alias" },
      { hostKeyPolicy: "accept-new" as const },
      { proxyJump: "jump" },
      { proxyCommand: "nc" },
      { certificateFiles: ["/c"] },
      { bindAddress: "10.0.0.1" },
      { addressFamily: "inet" as const },
      { carrier: "openssh" as const },
    ];
    const keys = variants.map((variant) => targetKey({ ...base, ...variant }));
    expect(new Set([...keys, targetKey(base)]).size).toBe(variants.length + 1);
  });
});

describe("targetName", () => {
  it("shows the port where it is not 22", () => {
    expect(targetName({ user: "me", host: "box", port: 22 })).toBe("me@box");
    expect(targetName({ user: "me", host: "::1", port: 2222 })).toBe("me@[::1]:2222");
  });
});

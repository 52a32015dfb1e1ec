import { writeFileSync } from "node:fs";
import { hostname, userInfo } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { opensshReasons } from "../../src/ssh/openssh-reasons.ts";
import type { RuntimeOptions } from "../../src/ssh/options.ts";
import { targetName } from "../../src/ssh/target.ts";
import { targetKey } from "../../src/ssh/target-key.ts";
import { RuntimeError } from "../../src/wire/errors.ts";
import { HOME, publicKey, targetFrom, temporaryFolder } from "./support.ts";

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
    // The ssh program does it itself.
    expect(targetFrom({ identityfile: [value] }, { carrier: "openssh" }).identityFiles).toEqual([]);
  });

  it("knows the local host and account in tokens", () => {
    const target = targetFrom({ identityfile: ["/k/%l/%L/%i"] });
    expect(target.identityFiles).toEqual([`/k/${hostname()}/${hostname().split(".")[0]}/${userInfo().uid}`]);
  });
});

describe("combine with what only ssh_config says", () => {
  it.each([
    ["accept-new", "accept-new"],
    ["no", "accept-new"],
    ["false", "accept-new"],
    ["off", "accept-new"],
    ["ask", "strict"],
    ["yes", "strict"],
    ["true", "strict"],
  ])("takes StrictHostKeyChecking %s for %s, unless the option says something", (value, policy) => {
    expect(targetFrom({ stricthostkeychecking: [value] }).hostKeyPolicy).toBe(policy);
    for (const hostKeyPolicy of ["strict", "accept-new"] as const) {
      const target = targetFrom({ stricthostkeychecking: [value] }, { hostKeyPolicy });
      expect(target.hostKeyPolicy).toBe(hostKeyPolicy);
    }
    expect(targetFrom({}).hostKeyPolicy).toBe("strict");
  });

  it("takes its limits where the options have none", () => {
    const config = { connecttimeout: ["1m30s"], serveraliveinterval: ["7"], serveralivecountmax: ["5"] };
    expect(targetFrom(config)).toMatchObject({
      connectTimeoutMs: 90_000,
      keepaliveIntervalMs: 7_000,
      keepaliveCountMax: 5,
    });
    expect(targetFrom(config, { connectTimeoutMs: 100, keepaliveIntervalMs: 200 })).toMatchObject({
      connectTimeoutMs: 100,
      keepaliveIntervalMs: 200,
    });
    const unlimited = { connecttimeout: ["none"], serveraliveinterval: ["0"], serveralivecountmax: ["0"] };
    for (const said of [unlimited, {}]) {
      expect(targetFrom(said as Record<string, string[]>)).toMatchObject({
        connectTimeoutMs: 15_000,
        keepaliveIntervalMs: 5_000,
        keepaliveCountMax: 3,
      });
    }
    expect(targetFrom({ connecttimeout: ["99999999"] }).connectTimeoutMs).toBe(24 * 3_600_000);
  });

  it("hands on HostKeyAlgorithms and PreferredAuthentications", () => {
    const config = { hostkeyalgorithms: ["ssh-ed25519"], preferredauthentications: ["publickey,Password"] };
    expect(targetFrom(config)).toMatchObject({
      hostKeyAlgorithms: ["ssh-ed25519"],
      preferredAuthentications: ["publickey", "password"],
    });
  });

  it.each([
    ["hostname", "-oProxyCommand=id", "HostName"],
    ["hostname", "$(id)", "HostName"],
    ["hostname", "a b", "HostName"],
    ["hostname", "a\u0007b", "HostName"],
    ["user", "-l", "User"],
    ["user", "a;id", "User"],
    ["user", "a`id`", "User"],
    ["connecttimeout", "soon", "ConnectTimeout"],
    ["serveraliveinterval", "-1", "ServerAliveInterval"],
    ["serveralivecountmax", "x", "ServerAliveCountMax"],
  ])("refuses %s %s", (keyword, value, named) => {
    expect(() => targetFrom({ [keyword]: [value] })).toThrow(named);
  });
});

describe("targetKey", () => {
  const base = targetFrom({});

  it("does not depend on limits and on the name that was used", () => {
    const other = { ...base, alias: "x", connectTimeoutMs: 1, keepaliveIntervalMs: 1, keepaliveCountMax: 1 };
    expect(targetKey({ ...base, jump: other })).toBe(targetKey({ ...base, jump: base }));
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
      { proxyCommand: "nc %n" },
      { proxyCommand: "nc %n", alias: "other" },
      { proxyUseFdpass: true },
      { jump: base },
      { jump: { ...base, user: "other" } },
      { jump: { ...base, jump: base } },
      { hostKeyAlgorithms: ["ssh-ed25519" as const] },
      { preferredAuthentications: ["publickey"] as const },
      { certificateFiles: ["/c"] },
      { bindAddress: "10.0.0.1" },
      { addressFamily: "inet" as const },
      { carrier: "openssh" as const },
      { pkcs11Provider: "/lib/p11.so" },
      { prefersGssapi: true },
    ];
    const keys = variants.map((variant) => targetKey({ ...base, ...variant }));
    expect(new Set([...keys, targetKey(base)]).size).toBe(variants.length + 1);
  });
});

describe("targetKey for the ssh program", () => {
  it("depends on the name, which ssh looks up itself, and on what the options say, not on where programs are", () => {
    for (const chosen of [{ carrier: "openssh" as const }, { certificateFiles: ["/c"] }]) {
      const base = { ...targetFrom({}), ...chosen };
      const { program } = base;
      const variants = [
        { ...base, alias: "other" },
        { ...base, program: { ...program, configFile: "/other" } },
        { ...base, program: { ...program, user: "dev" } },
      ];
      expect(new Set([base, ...variants].map(targetKey)).size).toBe(4);
      expect(targetKey({ ...base, program: { ...program, env: { PATH: "/other" } } })).toBe(targetKey(base));
      expect(targetKey({ ...base, connectTimeoutMs: 1 })).toBe(targetKey(base));
    }
  });
});

describe("opensshReasons", () => {
  it.each([
    [{ certificatefile: ["/c"] }, ["CertificateFile"]],
    [{ knownhostscommand: ["/bin/kh"] }, ["KnownHostsCommand"]],
    [{ proxyusefdpass: ["yes"], proxycommand: ["nc -F %h %p"] }, ["ProxyUseFdpass"]],
    [{ proxyusefdpass: ["yes"] }, undefined],
    [{ pkcs11provider: ["/lib/p11.so"] }, ["PKCS11Provider"]],
    [{ pkcs11provider: ["none"] }, undefined],
    [
      { gssapiauthentication: ["yes"], preferredauthentications: ["gssapi-with-mic,publickey"] },
      ["PreferredAuthentications with GSSAPI"],
    ],
    [{ gssapiauthentication: ["yes"] }, undefined],
    [{ gssapiauthentication: ["no"], preferredauthentications: ["gssapi-with-mic"] }, undefined],
    [{ securitykeyprovider: ["internal"] }, undefined],
  ] as [Record<string, string[]>, string[] | undefined][])("of %j are %j", (config, reasons) => {
    expect(opensshReasons(targetFrom(config))).toEqual(reasons);
    expect(opensshReasons(targetFrom(config, { carrier: "openssh" }))).toEqual([]);
    expect(opensshReasons(targetFrom(config, { carrier: "ssh2" }))).toBeUndefined();
  });

  it("name an authority for the host's key where no key of its own is known", () => {
    const folder = temporaryFolder();
    const { line } = publicKey();
    const reasonsFor = (text: string) => {
      writeFileSync(join(folder, "kh"), text);
      return opensshReasons(targetFrom({}, { port: 2222, knownHostsFile: join(folder, "kh") }));
    };
    const named = ["@cert-authority in the files of known hosts"];
    expect(reasonsFor(`@cert-authority devbox ${line}\n`)).toEqual(named);
    expect(reasonsFor(`  @cert-authority\t[devbox]:2222,other ${line}\n@revoked devbox ${line}\n`)).toEqual(named);
    expect(reasonsFor(`@cert-authority !devbox,![devbox]:2222,* ${line}\n`)).toBeUndefined();
    expect(reasonsFor(`@cert-authority devbox ${line}\ndevbox ${line}\n`)).toBeUndefined();
    expect(reasonsFor(`#@cert-authority devbox ${line}\n@cert-authority\n`)).toBeUndefined();
  });
});

describe("targetName", () => {
  it("shows the port where it is not 22", () => {
    expect(targetName({ user: "me", host: "box", port: 22 })).toBe("me@box");
    expect(targetName({ user: "me", host: "::1", port: 2222 })).toBe("me@[::1]:2222");
  });
});

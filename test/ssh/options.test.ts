import { describe, expect, it } from "vitest";
import { splitHost } from "../../src/ssh/host.ts";
import { nearest } from "../../src/ssh/nearest.ts";
import { OPTION_NAMES, parseRuntimeOptions } from "../../src/ssh/options.ts";
import { parseProxyJump } from "../../src/ssh/proxy-jump.ts";
import { RuntimeError } from "../../src/wire/errors.ts";

function failure(raw: Record<string, unknown>): RuntimeError {
  try {
    parseRuntimeOptions(raw);
  } catch (error) {
    if (error instanceof RuntimeError) return error;
    throw error;
  }
  throw new Error("The options were accepted");
}

describe("parseRuntimeOptions", () => {
  it("fills in the defaults", () => {
    expect(parseRuntimeOptions({ host: "devbox" })).toEqual({
      host: "devbox",
      carrier: "auto",
      root: "~/.paseo-ssh-runtime",
      provisionNode: false,
      forwardAgent: false,
      reconnectWindowMs: 900_000,
      brokerIdleMs: 600_000,
    });
  });

  it("takes every option, and its own result again", () => {
    const all = {
      host: "dev@build.example.test:2222",
      user: "dev",
      port: 2222,
      identityFile: "~/.ssh/id_build",
      identitiesOnly: true,
      proxyJump: "me@jump:22,other",
      knownHostsFile: "/etc/known hosts",
      sshConfigFile: "~/.ssh/other_config",
      hostKeyPolicy: "accept-new",
      carrier: "ssh2",
      root: "/srv/paseo",
      node: "/opt/node/bin/node",
      provisionNode: true,
      path: ["~/bin", "/opt/tools/bin"],
      env: { GREETING: "hello world", EMPTY: "", _x1: "multi\nline" },
      helper: false,
      forwardAgent: true,
      connectTimeoutMs: 1_000,
      keepaliveIntervalMs: 1_000,
      reconnectWindowMs: 0,
      brokerIdleMs: 1_000,
    };
    expect(Object.keys(all).sort()).toEqual([...OPTION_NAMES].sort());
    const parsed = parseRuntimeOptions(all);
    expect(parsed).toEqual({ ...all, host: "build.example.test" });
    expect(parseRuntimeOptions(parsed)).toEqual(parsed);
    expect(parseRuntimeOptions(parseRuntimeOptions({ host: "[::1]:22" }))).toMatchObject({ host: "::1", port: 22 });
  });

  it("names what is missing", () => {
    expect(failure({}).code).toBe("option-missing");
    expect(failure({ port: 22 }).message).toContain('"host"');
  });

  it.each([
    ["hostname", "host"],
    ["Port", "port"],
    ["identityfile", "identityFile"],
    ["keepAliveIntervalMS", "keepaliveIntervalMs"],
    ["identityFiles", "identityFile"],
  ])("names the unknown key %s and suggests %s", (key, suggestion) => {
    const error = failure({ host: "devbox", [key]: "x" });
    expect(error.code).toBe("option-unknown");
    expect(error.message).toContain(`"${key}"`);
    expect(error.remedy).toBe(`Did you mean "${suggestion}"?`);
  });

  it("lists the known keys when none is near", () => {
    for (const key of ["password", "zzz", "__proto__"]) {
      const error = failure(JSON.parse(`{"host":"devbox","${key}":{}}`));
      expect(error.code).toBe("option-unknown");
      expect(error.remedy).toContain("knownHostsFile");
    }
  });

  it.each<[string, Record<string, unknown>]>([
    ["host", { host: 7 }],
    ["host", { host: "" }],
    ["host", { host: "-oProxyCommand=touch /tmp/x" }],
    ["host", { host: "me@-oProxyCommand=x" }],
    ["host", { host: "two words" }],
    ["host", { host: "nul\0host" }],
    ["host", { host: "tab\thost" }],
    ["host", { host: "$(id)" }],
    ["host", { host: "a".repeat(256) }],
    ["host", { host: "host:0" }],
    ["host", { host: "host:65536" }],
    ["host", { host: "host:" }],
    ["host", { host: "[::1" }],
    ["host", { host: "ssh://host" }],
    ["user", { host: "@host" }],
    ["user", { host: "-l@host" }],
    ["user", { host: "h", user: "-x" }],
    ["user", { host: "h", user: "a b" }],
    ["user", { host: "a@h", user: "b" }],
    ["port", { host: "h:22", port: 23 }],
    ["port", { host: "h", port: "22" }],
    ["port", { host: "h", port: 22.5 }],
    ["port", { host: "h", port: 0 }],
    ["identityFile", { host: "h", identityFile: "id_rsa" }],
    ["identityFile", { host: "h", identityFile: "~other/id" }],
    ["identityFile", { host: "h", identityFile: "/a\nb" }],
    ["identitiesOnly", { host: "h", identitiesOnly: "yes" }],
    ["proxyJump", { host: "h", proxyJump: "-oX" }],
    ["proxyJump", { host: "h", proxyJump: "a b" }],
    ["proxyJump", { host: "h", proxyJump: "" }],
    ["proxyJump", { host: "h", proxyJump: "a,,b" }],
    ["proxyJump", { host: "h", proxyJump: "a,-oX" }],
    ["proxyJump", { host: "h", proxyJump: "me@-oX" }],
    ["proxyJump", { host: "h", proxyJump: "-l@jump" }],
    ["proxyJump", { host: "h", proxyJump: "$(id)" }],
    ["proxyJump", { host: "h", proxyJump: "a;id" }],
    ["proxyJump", { host: "h", proxyJump: "a:0" }],
    ["proxyJump", { host: "h", proxyJump: "ssh://a/path" }],
    ["proxyJump", { host: "h", proxyJump: "a\tb" }],
    ["proxyJump", { host: "h", proxyJump: Array.from({ length: 9 }, () => "a").join(",") }],
    ["hostKeyPolicy", { host: "h", hostKeyPolicy: "off" }],
    ["carrier", { host: "h", carrier: "telnet" }],
    ["root", { host: "h", root: "relative" }],
    ["provisionNode", { host: "h", provisionNode: "auto" }],
    ["path", { host: "h", path: "/bin" }],
    ["path", { host: "h", path: ["/a:/b"] }],
    ["path", { host: "h", path: ["bin"] }],
    ["path", { host: "h", path: Array.from({ length: 65 }, () => "/a") }],
    ["env", { host: "h", env: ["A=1"] }],
    ["env", { host: "h", env: { "A-B": "1" } }],
    ["env", { host: "h", env: { "1A": "1" } }],
    ["env", { host: "h", env: { "": "1" } }],
    ["env", { host: "h", env: { A: 1 } }],
    ["env", { host: "h", env: { A: "nul\0" } }],
    ["env", { host: "h", env: JSON.parse('{"__proto__":"x"}') }],
    ["helper", { host: "h", helper: true }],
    ["helper", { host: "h", helper: "helper" }],
    ["forwardAgent", { host: "h", forwardAgent: null }],
    ["connectTimeoutMs", { host: "h", connectTimeoutMs: 99 }],
    ["connectTimeoutMs", { host: "h", connectTimeoutMs: 600_001 }],
    ["keepaliveIntervalMs", { host: "h", keepaliveIntervalMs: Number.NaN }],
    ["reconnectWindowMs", { host: "h", reconnectWindowMs: -1 }],
    ["brokerIdleMs", { host: "h", brokerIdleMs: Number.POSITIVE_INFINITY }],
  ])("refuses a bad %s: %j", (key, raw) => {
    const error = failure(raw);
    expect(error.code).toBe("option-invalid");
    expect(error.message).toMatch(new RegExp(`^Option "${key}" (must|has|says)`));
    expect(error.message).not.toMatch(/undefined|Invalid input/);
  });

  it("does not repeat values of env in its message", () => {
    const error = failure({ host: "h", env: { TOKEN: "top\0secret" } });
    expect(error.toLine()).not.toContain("secret");
  });
});

describe("parseProxyJump", () => {
  it.each([
    ["jump", [{ host: "jump" }]],
    ["me@jump:2222", [{ host: "jump", user: "me", port: 2222 }]],
    ["a,b@c,[::1]:22", [{ host: "a" }, { host: "c", user: "b" }, { host: "::1", port: 22 }]],
    ["ssh://me@jump:2222", [{ host: "jump", user: "me", port: 2222 }]],
    ["ssh://jump/,other", [{ host: "jump" }, { host: "other" }]],
  ])("reads %s", (text, expected) => {
    expect(parseProxyJump(text)).toEqual(expected);
  });
});

describe("splitHost", () => {
  it.each([
    ["devbox", { host: "devbox" }],
    ["me@devbox", { host: "devbox", user: "me" }],
    ["devbox:2222", { host: "devbox", port: 2222 }],
    ["me@devbox:2222", { host: "devbox", user: "me", port: 2222 }],
    ["me@corp.example@devbox", { host: "devbox", user: "me@corp.example" }],
    ["CORP\\me@devbox", { host: "devbox", user: "CORP\\me" }],
    ["::1", { host: "::1" }],
    ["fe80::1%eth0", { host: "fe80::1%eth0" }],
    ["[::1]", { host: "::1" }],
    ["me@[::1]:2222", { host: "::1", user: "me", port: 2222 }],
  ])("reads %s", (text, expected) => {
    expect(splitHost(text)).toEqual(expected);
  });
});

describe("nearest", () => {
  it("suggests only what is near", () => {
    expect(nearest("prot", ["port", "root"])).toBe("port");
    expect(nearest("xyz", ["port", "env"])).toBeUndefined();
    expect(nearest("x".repeat(100_000), ["port"])).toBeUndefined();
  });
});

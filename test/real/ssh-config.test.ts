import { mkdirSync, writeFileSync } from "node:fs";
import { userInfo } from "node:os";
import { delimiter, join } from "node:path";
import { expect, it } from "vitest";
import { parseRuntimeOptions, type RuntimeOptions } from "../../src/ssh/options.ts";
import { combine, resolveTarget } from "../../src/ssh/resolve-target.ts";
import { configFromFiles } from "../../src/ssh/ssh-config-files.ts";
import { configFromProgram } from "../../src/ssh/ssh-config-program.ts";
import type { ConfigQuery } from "../../src/ssh/target.ts";
import { RuntimeError } from "../../src/wire/errors.ts";
import { temporaryFolder } from "../ssh/support.ts";
import { describeReal } from "../support/requirements.ts";

const { PATH } = process.env;
const env = { HOME: userInfo().homedir, PATH: PATH! };

const BASIC = `
# comment
Host devbox d?v2
  HostName %h.example.test
  User builder
  Port 2222
  IdentityFile ~/.ssh/id_build
  IdentityFile "/keys/with space/%r@%h"
  IdentitiesOnly yes
Host *.example.test !bad.example.test
  User example
  UserKnownHostsFile ~/.ssh/kh_example /kh2
  HashKnownHosts yes
Host bad.example.test
  User bad
Host *
  User fallback
  IdentityFile ~/.ssh/id_all
  GlobalKnownHostsFile /etc/kh
`;

const MATCHES = `
Match originalhost one user root
  HostName first
Match host first localuser ${userInfo().username}
  Port 77
Match !host first
  Port 78
Match user nobody
  Port 79
Match all
  HostKeyAlias matched-%h
  AddressFamily inet
  IdentityAgent ~/agent-%r
`;

const PROXIES = `
Host jump-first
  ProxyJump me@jump:2200
  ProxyCommand nc %h %p
Host command-first
  ProxyCommand nc -X connect "%h" %p
  ProxyJump me@jump
Host neither
  ProxyJump none
Host own
  CertificateFile ~/cert
  IdentityAgent none
  IdentityFile none
  BindAddress 127.0.0.9
  UserKnownHostsFile none
Host=spaced
User=equals
Host quoted
  User "quoted"
  UserKnownHostsFile "/with space/kh" /kh3
`;

const CASES: [string, string, Partial<RuntimeOptions>][] = [
  ...["devbox", "dev2", "good.example.test", "bad.example.test", "elsewhere", "10.0.0.1", "::1"].map(
    (host): [string, string, Partial<RuntimeOptions>] => [BASIC, host, {}],
  ),
  [BASIC, "devbox", { user: "me", port: 22, identityFile: "/mine", identitiesOnly: false, knownHostsFile: "/kh" }],
  [MATCHES, "one", {}],
  [MATCHES, "one", { user: "root" }],
  [MATCHES, "one", { user: "nobody" }],
  [MATCHES, "two", {}],
  ...["jump-first", "command-first", "neither", "own", "spaced", "quoted"].map(
    (host): [string, string, Partial<RuntimeOptions>] => [PROXIES, host, {}],
  ),
  [PROXIES, "jump-first", { proxyJump: "none" }],
  ["", "devbox", {}],
];

describeReal("ssh_config", () => {
  it.each(CASES)("means the same to ssh and to our own reading (%#)", async (config, host, extra) => {
    const configFile = join(temporaryFolder(), "config");
    writeFileSync(configFile, config, { mode: 0o600 });
    const options = parseRuntimeOptions({ host, ...extra });
    const query: ConfigQuery = { host, configFile, home: userInfo().homedir, localUser: userInfo().username, env };
    if (options.user !== undefined) query.user = options.user;
    if (options.port !== undefined) query.port = options.port;

    const program = await configFromProgram(query);
    expect(program).toBeDefined();
    expect(combine(options, query, configFromFiles(query))).toEqual(combine(options, query, program!));
  });

  it("follows includes as ssh does", async () => {
    const folder = temporaryFolder();
    mkdirSync(join(folder, "conf.d"));
    writeFileSync(join(folder, "conf.d", "10-a"), "Host devbox\n  User from-a\nHost other\n  User never\n");
    writeFileSync(join(folder, "conf.d", "20-b"), "Port 2020\n");
    const configFile = join(folder, "config");
    writeFileSync(
      configFile,
      `Host devbox\n  Include ${folder}/conf.d/*\n  HostName real\nHost *\n  User late\n  Port 1\n`,
    );
    for (const host of ["devbox", "other"]) {
      const options = parseRuntimeOptions({ host });
      const query = { host, configFile, home: userInfo().homedir, localUser: userInfo().username, env };
      const target = combine(options, query, (await configFromProgram(query))!);
      expect(combine(options, query, configFromFiles(query))).toEqual(target);
      expect(target.user).toBe(host === "devbox" ? "from-a" : "late");
    }
  });

  it("takes a host that looks like an option as a host", async () => {
    const configFile = join(temporaryFolder(), "config");
    writeFileSync(configFile, "");
    const proof = join(temporaryFolder(), "proof");
    const query = { host: `-oProxyCommand=touch ${proof}`, configFile, home: "/root", localUser: "root", env };
    const refused = await configFromProgram(query).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(RuntimeError);
  });

  it("reports ssh's own words about a broken file, in one line", async () => {
    const configFile = join(temporaryFolder(), "config");
    writeFileSync(configFile, "Host devbox\n  Nonsense yes\n");
    const options = parseRuntimeOptions({ host: "devbox", sshConfigFile: configFile });
    await expect(resolveTarget(options, env)).rejects.toMatchObject({
      code: "option-invalid",
      message: expect.stringContaining("line 2: Bad configuration option: nonsense"),
    });
  });

  it("goes without the ssh program", async () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, "config"), "Host devbox\n  HostName here\n  User me\n", { mode: 0o600 });
    const options = parseRuntimeOptions({ host: "devbox", sshConfigFile: join(folder, "config") });
    const withProgram = await resolveTarget(options, env);
    const without = await resolveTarget(options, { ...env, PATH: [folder, "/nonexistent"].join(delimiter) });
    // Where a program would be looked for is part of a target, but not of what ssh_config says.
    expect({ ...without, program: undefined }).toEqual({ ...withProgram, program: undefined });
    expect(without).toMatchObject({ host: "here", user: "me" });
  });
});

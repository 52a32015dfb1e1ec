import type { Attempt, Outcome } from "./login-laboratory.ts";

/** One configuration on which `ssh` and this runtime have to decide alike. */
export interface LoginCase extends Attempt {
  name: string;
  /** What `ssh` does; stated, so that a laboratory that is broken does not pass for agreement. */
  outcome: Outcome;
  /** A difference that we want, and what we do. docs/options.md lists these reasons. */
  differs?: { reason: string; outcome: Outcome; visits?: string[] };
  /** Without the ssh program this one is refused. */
  needsProgram?: boolean;
}

/** The address without a key, and with the good one. */
const ADDRESS = "  HostName 127.0.0.1\n  Port $targetPort\n";
const TARGET = `Host target\n${ADDRESS}`;
const GOOD = "  IdentityFile $keys/good\n";
const IN = `${TARGET}${GOOD}`;

const UNOPENED: LoginCase["differs"] = {
  reason: "an identity file that cannot be opened",
  outcome: "accepted",
  visits: ["target as me with good"],
};

const strange = (text = "$strange") => `[127.0.0.1]:$targetPort ${text}\n`;

function of(outcome: Outcome, cases: [name: string, config: string, extra?: Partial<LoginCase>][]): LoginCase[] {
  return cases.map(([name, config, extra]) => ({ name, config, outcome, ...extra }));
}

export const LOGIN_CASES: LoginCase[] = [
  ...of("accepted", [
    ["an alias", IN],
    ["the first value wins", `Host target\n${ADDRESS}${GOOD}Host *\n  Port 1\n  HostName 127.0.0.9\n`],
    ["a pattern with *", `Host tar*\n${ADDRESS}${GOOD}`],
    ["a pattern with ?", `Host ?????t\n${ADDRESS}${GOOD}`],
    ["several patterns", `Host x target y\n${ADDRESS}${GOOD}`],
    ["a negated pattern", `Host * !target\n  Port 1\n${IN}`],
    ["a negated pattern in front", `Host !target *\n  Port 1\n${IN}`],
    ["names whose letter case differs", `Host TARGET\n  Port 1\n${IN}`],
    ["quotes", `Host "target"\n  HostName "127.0.0.1"\n  Port "$targetPort"\n  IdentityFile "$keys/good"\n`],
    ["equals signs", `Host=target\n  HostName=127.0.0.1\n  Port = $targetPort\n  IdentityFile= $keys/good\n`],
    [
      "keywords in any case, tabs and comments",
      `# one\n\nhost target\n\thostNAME 127.0.0.1\n\tPORT\t$targetPort\n  # two\n${GOOD}`,
    ],
    ["settings before the first Host", `IdentityFile $keys/good\n${TARGET}`],
    [
      "HostName with %h",
      `Host local\n  HostName %hhost\n  Port $targetPort\n  AddressFamily inet\n${GOOD}`,
      { host: "local" },
    ],
    ["HostName in capitals", `Host target\n  HostName LOCALHOST\n  Port $targetPort\n  AddressFamily inet\n${GOOD}`],
    ["an address without an alias", `Host 127.0.0.1\n  Port $targetPort\n${GOOD}`, { host: "127.0.0.1" }],
    ["AddressFamily inet", `${IN}  AddressFamily inet\n`],
    ["BindAddress", `${IN}  BindAddress 127.0.0.1\n`],
    ["ConnectTimeout and ServerAlive", `${IN}  ConnectTimeout 19\n  ServerAliveInterval 7\n  ServerAliveCountMax 2\n`],
    ["IgnoreUnknown", `IgnoreUnknown Nonsense*\n${IN}  NonsenseOption yes\n`],
  ]),
  ...of("accepted", [
    ["Match all", `${IN}Match all\n  Port 1\n`],
    ["Match host", `${TARGET}Match host 127.0.0.1\n${GOOD}`],
    ["Match host with the name that was typed", `Match host target\n${ADDRESS}${GOOD}`],
    ["Match originalhost", `${TARGET}Match originalhost target\n${GOOD}`],
    ["Match with a negated criterion", `Match !originalhost other\n${ADDRESS}${GOOD}`],
    ["Match with a list", `Match originalhost x,!y,tar*\n${ADDRESS}${GOOD}`],
    ["Match user", `Host target\n  User $user\n${ADDRESS}Match user $user\n${GOOD}`],
    ["Match localuser", `${TARGET}Match localuser $user\n${GOOD}`],
    ["Match with several criteria", `Match originalhost target localuser nobody\n  Port 1\n${IN}`],
    ["Match exec that succeeds", `${TARGET}Match exec "true"\n${GOOD}`, { needsProgram: true }],
    ["Match exec that fails", `Match exec "false"\n  Port 1\n${IN}`, { needsProgram: true }],
    [
      "Match exec with tokens",
      `${TARGET}Match exec "test %h.%n.%r = 127.0.0.1.target.$user"\n${GOOD}`,
      { needsProgram: true },
    ],
    ["Match that ends at the first criterion", `Match originalhost other exec "exit 0"\n  Port 1\n${IN}`],
    ["Match final", `${IN}Match final\n  Port 1\n`, { needsProgram: true }],
  ]),
  ...of("accepted", [
    ["Include", `Include $folder/more\n`, { files: { more: IN } }],
    ["Include with a pattern", `Include $folder/part-*\n`, { files: { "part-1": IN, "part-2": "Host *\n  Port 1\n" } }],
    [
      "Include within a Host that does not match",
      `Host other\n  Include $folder/more\n${IN}`,
      { files: { more: "Port 1\n" } },
    ],
    [
      "Include within a Host that matches",
      `Host target\n  Include $folder/more\n${GOOD}`,
      { files: { more: ADDRESS } },
    ],
    [
      "a Host of an included file ends with it",
      `Include $folder/more\nIdentityFile $keys/good\n${TARGET}`,
      { files: { more: "Host other\n  Port 1\n" } },
    ],
    ["Include of a file that does not exist", `Include $folder/nowhere\n${IN}`],
    ["nested Include", `Include $folder/one\n`, { files: { one: "Include $folder/two\n", two: IN } }],
    ["Include of two files", `Include $folder/one $folder/two\n`, { files: { one: TARGET, two: GOOD } }],
  ]),
  ...of("configuration", [
    ["an unknown keyword", `${IN}  Nonsense yes\n`],
    ["a port that is none", `Host target\n  Port 99999\n${GOOD}`],
    ["a token that does not exist", `${IN}  ProxyCommand $pipe %h %p %x\n`],
    ["a host that begins with a dash", IN, { host: "-oProxyCommand=true" }],
    ["a host with shell syntax", IN, { host: "$(true)" }],
    ["a jump host that looks like an option", `${IN}  ProxyJump -oX\n`],
  ]),
  ...of("network", [
    ["a wrong port", `Host target\n  Port 1\n${IN}`],
    ["an address of another family", `${IN}  AddressFamily inet6\n`],
    ["a name that does not exist", `Host target\n  HostName target.invalid\n${GOOD}`],
  ]),
  ...of("login", [
    ["another user", `Host target\n  User psr-stranger\n${ADDRESS}${GOOD}`],
    ["a key that is not let in", `${TARGET}  IdentityFile $keys/stranger\n`],
    ["no key at all", `${TARGET}  IdentityFile none\n`],
    ["a user from the host argument", IN, { host: "psr-other@target" }],
    [
      "a user from an option",
      `Host target\n  User psr-other\n${ADDRESS}${GOOD}`,
      { options: { user: "psr-mine" }, args: ["-l", "psr-mine"] },
    ],
  ]),
  ...of("accepted", [
    [
      "a port from an option",
      `Host target\n  Port 1\n${IN}`,
      { options: { host: "target:$targetPort" }, args: ["-p", "$targetPort"] },
    ],
    ["keys in order", `${TARGET}  IdentityFile $keys/stranger\n${GOOD}  IdentityFile $keys/spare\n`],
    [
      "keys of several blocks add up",
      `${TARGET}  IdentityFile $keys/stranger\nHost *\n  IdentityFile $keys/other\n${GOOD}`,
    ],
    ["a key that does not exist", `${TARGET}  IdentityFile $keys/nowhere\n${GOOD}`],
    ["a key that is named twice", `${TARGET}  IdentityFile $keys/stranger\n  IdentityFile $keys/stranger\n${GOOD}`],
    [
      "a key with a passphrase that nobody enters",
      `${TARGET}  IdentityFile $keys/encrypted\n${GOOD}`,
      { differs: UNOPENED },
    ],
    ["a key that others can read", `${TARGET}  IdentityFile $keys/exposed\n${GOOD}`, { differs: UNOPENED }],
    ["a path with tokens", `${TARGET}  IdentityFile $keys/id-%n-%r\n`],
    ["a path with a variable", `${TARGET}  IdentityFile \${HOME}/good\n`],
    ["a path with a blank", `${TARGET}  IdentityFile "$keys/with blank"\n`],
    [
      "the key of an option goes first",
      `${TARGET}${GOOD}`,
      { options: { identityFile: "$keys/stranger" }, args: ["-i", "$keys/stranger"] },
    ],
    ["keys of the agent", `${TARGET}  IdentityFile none\n`, { agent: true }],
    ["a file whose key the agent has goes first", `${TARGET}  IdentityFile $keys/spare\n`, { agent: true }],
    [
      "a public half whose key the agent has",
      `${TARGET}  IdentityFile $keys/spare.pub\n  IdentitiesOnly yes\n`,
      { agent: true },
    ],
    ["IdentitiesOnly", `${IN}  IdentitiesOnly yes\n`, { agent: true }],
    [
      "IdentitiesOnly with keys in file and agent",
      `${TARGET}${GOOD}  IdentityFile $keys/stranger\n  IdentitiesOnly yes\n`,
      { agent: true },
    ],
    ["IdentityAgent", `${TARGET}  IdentityFile none\n  IdentityAgent $agent\n`],
    ["IdentityAgent none", `${IN}  IdentityAgent none\n`, { agent: true }],
    ["IdentityAgent SSH_AUTH_SOCK", `${TARGET}  IdentityFile none\n  IdentityAgent SSH_AUTH_SOCK\n`, { agent: true }],
    [
      "IdentityAgent with a variable",
      `${TARGET}  IdentityFile none\n  IdentityAgent $SSH_AUTH_SOCK\n`,
      { agent: true },
    ],
    [
      "a file whose key the agent does not have",
      `${TARGET}${GOOD}`,
      {
        agent: true,
        differs: {
          reason: "identities in the agent that no file names",
          outcome: "accepted",
          visits: ["target as me with good"],
        },
      },
    ],
  ]),
  ...of("accepted", [
    [
      "HostKeyAlias",
      `${IN}  HostKeyAlias farm\n  UserKnownHostsFile $folder/farm\n`,
      { files: { farm: "farm $targetEd25519\n" } },
    ],
    ["several files of known hosts", `${IN}  UserKnownHostsFile $folder/none $folder/known\n`],
    [
      "a key that one file has and another one has not",
      `${IN}  UserKnownHostsFile $folder/bad $folder/known\n`,
      { files: { bad: strange() } },
    ],
    ["GlobalKnownHostsFile", `${IN}  UserKnownHostsFile none\n  GlobalKnownHostsFile $folder/known\n`],
    [
      "a key without the port",
      `${IN}  UserKnownHostsFile $folder/mine\n`,
      { files: { mine: "127.0.0.1 $targetEd25519\n" } },
    ],
    [
      "a pattern of known hosts",
      `${IN}  UserKnownHostsFile $folder/mine\n`,
      { files: { mine: "[127.*]:* $targetEd25519\n" } },
    ],
    [
      "a known key of a type that the server presents second",
      `${IN}  UserKnownHostsFile $folder/mine\n`,
      { files: { mine: "[127.0.0.1]:$targetPort $targetRsa\n" } },
    ],
    [
      "a revoked key beside a good one",
      `${IN}  UserKnownHostsFile $folder/known $folder/bad\n`,
      { files: { bad: "@revoked * $targetEd25519\n" } },
    ],
    ["HostKeyAlgorithms", `${IN}  HostKeyAlgorithms rsa-sha2-256\n`],
    ["HostKeyAlgorithms that takes some away", `${IN}  HostKeyAlgorithms -ssh-ed25519*\n`],
    ["StrictHostKeyChecking accept-new", `${IN}  StrictHostKeyChecking accept-new\n  UserKnownHostsFile $folder/new\n`],
    ["StrictHostKeyChecking no", `${IN}  StrictHostKeyChecking no\n  UserKnownHostsFile $folder/new\n`],
    ["StrictHostKeyChecking off", `${IN}  StrictHostKeyChecking off\n  UserKnownHostsFile $folder/new\n`],
    [
      "StrictHostKeyChecking no and a changed key",
      `${IN}  StrictHostKeyChecking no\n  UserKnownHostsFile $folder/bad\n`,
      {
        files: { bad: strange() },
        differs: { reason: "StrictHostKeyChecking `no`, `off`", outcome: "host-key", visits: ["target"] },
      },
    ],
  ]),
  ...of("host-key", [
    ["an unknown key", `${IN}  UserKnownHostsFile $folder/none\n`],
    [
      "an unknown key that ssh would ask about",
      `${IN}  UserKnownHostsFile $folder/none\n  StrictHostKeyChecking ask\n`,
    ],
    ["a changed key", `${IN}  UserKnownHostsFile $folder/bad\n`, { files: { bad: strange() } }],
    [
      "a changed key with accept-new",
      `${IN}  StrictHostKeyChecking accept-new\n  UserKnownHostsFile $folder/bad\n`,
      { files: { bad: strange() } },
    ],
    [
      "a revoked key",
      `${IN}  UserKnownHostsFile $folder/bad\n`,
      { files: { bad: "[127.0.0.1]:$targetPort $targetEd25519\n@revoked * $targetEd25519\n" } },
    ],
    [
      "a revoked key with accept-new",
      `${IN}  StrictHostKeyChecking accept-new\n  UserKnownHostsFile $folder/bad\n`,
      { files: { bad: "@revoked * $targetEd25519\n" } },
    ],
    [
      "a name that a pattern excludes",
      `${IN}  UserKnownHostsFile $folder/mine\n`,
      { files: { mine: "!127.0.0.1,![127.0.0.1]:*,* $targetEd25519\n" } },
    ],
    ["a HostKeyAlias that is not known", `${IN}  HostKeyAlias farm\n`],
    [
      "a certificate authority instead of a key",
      `${IN}  UserKnownHostsFile $folder/mine\n`,
      { files: { mine: "@cert-authority * $targetEd25519\n" } },
    ],
    [
      "HostKeyAlgorithms in another order than the known keys",
      `${IN}  HostKeyAlgorithms ssh-ed25519,rsa-sha2-512\n  UserKnownHostsFile $folder/mine\n`,
      {
        files: { mine: "[127.0.0.1]:$targetPort $targetRsa\n" },
        differs: { reason: "HostKeyAlgorithms", outcome: "accepted", visits: ["target as me with good"] },
      },
    ],
  ]),
  ...of("accepted", [
    [
      "a jump host with shell syntax, which ssh hands to a shell",
      `${IN}  ProxyJump hop1;true\n`,
      { differs: { reason: "HostName, User and ProxyJump", outcome: "configuration", visits: [] } },
    ],
    ["one jump host", `${IN}  ProxyJump hop1\n`],
    ["two jump hosts", `${IN}  ProxyJump hop1,hop2\n`],
    ["a jump host as an address", `Host 127.0.0.1\n${GOOD}${IN}  ProxyJump $user@127.0.0.1:$hop1Port\n`],
    ["a jump host as an URI", `Host 127.0.0.1\n${GOOD}${IN}  ProxyJump ssh://127.0.0.1:$hop1Port\n`],
    ["a jump host with a jump host", `${IN}  ProxyJump hop2\nHost hop2\n  ProxyJump hop1\n`],
    ["a list instead of the jump host's own", `${IN}  ProxyJump hop1,hop2\nHost hop2\n  ProxyJump nowhere.invalid\n`],
    [
      "a jump host with keys of its own",
      `${IN}  ProxyJump hop1\nHost hop1\n  IdentityFile $keys/stranger\n  IdentityFile $keys/spare\n`,
    ],
    ["a jump host from an option", IN, { options: { proxyJump: "hop1" }, args: ["-J", "hop1"] }],
    [
      "a jump host from an option instead of another one",
      `${IN}  ProxyJump hop2\n`,
      { options: { proxyJump: "hop1" }, args: ["-J", "hop1"] },
    ],
    [
      "a jump host from an option instead of a command",
      `${IN}  ProxyCommand false\n`,
      { options: { proxyJump: "hop1" }, args: ["-J", "hop1"] },
    ],
    ["ProxyJump none", `Host target\n  ProxyJump none\n${ADDRESS}${GOOD}Host *\n  ProxyJump nowhere.invalid\n`],
    ["a jump host for all but itself", `${IN}Host * !hop1\n  ProxyJump hop1\n`],
    ["ProxyJump before ProxyCommand", `${IN}  ProxyJump hop1\n  ProxyCommand false\n`],
    ["ProxyCommand before ProxyJump", `${IN}  ProxyCommand $pipe %h %p\n  ProxyJump hop1\n`],
    ["a jump host with a ProxyCommand", `${IN}  ProxyJump hop1\nHost hop1\n  ProxyCommand $pipe %h %p\n`],
    [
      "a jump host with tokens",
      `Host jump-target\n  HostName 127.0.0.1\n  Port $hop1Port\n${GOOD}${IN}  ProxyJump jump-%n\n`,
    ],
    [
      "a target that only the jump host can name",
      `Host target\n  ProxyJump hop1\n  HostKeyAlias 127.0.0.1\n  UserKnownHostsFile $folder/mine\n${ADDRESS}${GOOD}`,
      { files: { mine: "127.0.0.1 $targetEd25519\n" } },
    ],
    [
      "a new jump host with accept-new",
      `${IN}  ProxyJump hop1\nHost hop1\n  StrictHostKeyChecking accept-new\n  UserKnownHostsFile $folder/new\n`,
    ],
    ["a ProxyCommand", `${IN}  ProxyCommand $pipe %h %p\n`],
    [
      "a ProxyCommand with quotes and shell syntax",
      `${IN}  ProxyCommand sh -c 'exec $pipe "$0" "$1"' %h $((%p + 0))\n`,
    ],
    ["ProxyCommand none", `Host target\n  ProxyCommand none\n${ADDRESS}${GOOD}Host *\n  ProxyCommand false\n`],
  ]),
  ...of("host-key", [
    ["an unknown first jump host", `${IN}  ProxyJump hop1,hop2\nHost hop1\n  UserKnownHostsFile $folder/none\n`],
    ["an unknown second jump host", `${IN}  ProxyJump hop1,hop2\nHost hop2\n  UserKnownHostsFile $folder/none\n`],
    [
      "a changed jump host",
      `${IN}  ProxyJump hop1\nHost hop1\n  UserKnownHostsFile $folder/bad\n`,
      { files: { bad: "[127.0.0.1]:$hop1Port $strange\n" } },
    ],
    ["an unknown target behind jump hosts", `${IN}  ProxyJump hop1,hop2\n  UserKnownHostsFile $folder/none\n`],
    [
      "a policy of the target, which is not the jump host's",
      `${IN}  StrictHostKeyChecking no\n  ProxyJump hop1\nHost hop1\n  UserKnownHostsFile $folder/none\n`,
    ],
  ]),
  ...of("login", [
    ["a jump host that lets nobody in", `${IN}  ProxyJump hop1\nHost hop1\n  User psr-stranger\n`],
    ["a user of a jump host", `${IN}  ProxyJump psr-stranger@hop1\n`],
    [
      "a target's user, which is not the jump host's",
      `Host target\n  User psr-stranger\n${ADDRESS}${GOOD}  ProxyJump hop1\n`,
    ],
  ]),
  ...of("configuration", [
    [
      "a host that is its own jump host",
      `Host 127.0.0.1\n  Port $targetPort\n  ProxyJump 127.0.0.1:$targetPort\n${GOOD}`,
      { host: "127.0.0.1" },
    ],
    ["a jump host for all, itself included", `${IN}Host *\n  ProxyJump jump\n`],
  ]),
  ...of("network", [
    ["a jump host that is not there", `${IN}  ProxyJump hop1\nHost hop1\n  Port 1\n`],
    [
      "a target that the jump host does not reach",
      `Host target\n  HostName 127.0.0.1\n  Port 1\n  ProxyJump hop1\n${GOOD}`,
    ],
    ["a ProxyCommand that fails", `${IN}  ProxyCommand false\n`],
    ["a ProxyCommand that does not exist", `${IN}  ProxyCommand /nonexistent/proxy %h\n`],
  ]),
];

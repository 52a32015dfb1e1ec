import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { acceptRuntimeOptions } from "../../src/ssh/accept-options.ts";
import { OPTION_NAMES, parseRuntimeOptions } from "../../src/ssh/options.ts";

const VALUES: unknown[] = [
  ...[
    "devbox",
    "user@devbox:22",
    "-oProxyCommand=x",
    "[::1]",
    "a b",
    "",
    "/srv/key",
    "~/key",
    "~user/key",
    "key",
    "strict",
    "accept-new",
    "off",
  ],
  ...["none", "jump", "me@jump:22,other", "a,,b", "a,", ",a", "a,-oX", "a:0", "a:65536", "a:70000", "ssh://a", "a;id"],
  ...[Array.from({ length: 8 }, () => "a").join(","), Array.from({ length: 9 }, () => "a").join(",")],
  ...[
    "auto",
    "ssh2",
    "openssh",
    "x".repeat(600),
    "x".repeat(256),
    "x".repeat(200),
    `${"x".repeat(129)}@a`,
    "a\0b",
    "/a:b",
  ],
  ...[true, false, null, undefined, 0, 1, 22, 99, 100, 65_535, 65_536, 15_000, 600_001, 1.5, Number.NaN],
  ...[[], ["/usr/bin"], ["bin"], ["/a:b"], {}, { A: "1" }, { "1A": "x" }, { A: 1 }, { A: "a\0" }],
];

describe("quick acceptance of options", () => {
  it("says yes only where the schema does, and takes the same from them", () => {
    let accepted = 0;
    const options = fc.dictionary(fc.constantFrom(...OPTION_NAMES, "other"), fc.constantFrom(...VALUES), {
      maxKeys: 3,
    });
    fc.assert(
      fc.property(options, (extra) => {
        const raw = { host: "devbox", ...extra };
        const quick = acceptRuntimeOptions(raw);
        if (quick === undefined) return;
        accepted += 1;
        const { host, path, env, helper, reconnectWindowMs } = parseRuntimeOptions(raw);
        expect(quick).toMatchObject(JSON.parse(JSON.stringify({ host, path, env, helper, reconnectWindowMs })));
      }),
      { numRuns: 5000 },
    );
    expect(accepted).toBeGreaterThan(500);
  });

  it("knows every option", () => {
    const usual = {
      host: "devbox",
      user: "dev",
      port: 22,
      identityFile: "~/.ssh/id",
      identitiesOnly: true,
      proxyJump: "me@jump:2222,other",
      knownHostsFile: "/etc/known",
      sshConfigFile: "/dev/null",
      hostKeyPolicy: "strict",
      carrier: "auto",
      root: "~/.psr",
      node: "/usr/bin/node",
      provisionNode: true,
      path: ["~/bin"],
      env: { A: "1" },
      helper: "/opt/helper",
      forwardAgent: true,
      connectTimeoutMs: 1000,
      keepaliveIntervalMs: 1000,
      reconnectWindowMs: 1000,
      brokerIdleMs: 1000,
    };
    expect(acceptRuntimeOptions(usual)).toMatchObject({
      host: "devbox",
      helper: "/opt/helper",
      reconnectWindowMs: 1000,
    });
    expect(Object.keys(usual).sort()).toEqual([...OPTION_NAMES].sort());
  });
});

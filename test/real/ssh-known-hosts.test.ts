import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { knownHostKeys, knownHostName } from "../../src/ssh/known-hosts.ts";
import { appendHostKey } from "../../src/ssh/known-hosts-append.ts";
import { publicKey, temporaryFolder } from "../ssh/support.ts";
import { describeReal } from "../support/requirements.ts";

/** Lines of a file that OpenSSH finds for a name, revoked ones included. `ssh-keygen -F` is the oracle. */
function linesFoundByOpenSsh(file: string, name: string): number[] {
  const { stdout } = spawnSync("ssh-keygen", ["-F", name, "-f", file], { encoding: "utf8" });
  return [...stdout.matchAll(/^# Host .* found: line (\d+)/gm)].map(([, line]) => Number(line));
}

const HOSTS: [string, number][] = [
  ["alpha", 22],
  ["ALPHA", 22],
  ["alpha", 2222],
  ["beta", 22],
  ["beta", 2222],
  ["gamma", 22],
  ["gamma", 2022],
  ["web1.example.test", 22],
  ["web2.example.test", 22],
  ["web1.example.test", 8022],
  ["10.0.0.7", 22],
  ["10.0.0.17", 22],
  ["::1", 22],
  ["::1", 2222],
  ["nobody", 22],
];

describeReal("known_hosts", () => {
  it.each([false, true])("finds the lines that OpenSSH finds (hashed: %s)", (hashed) => {
    const key = publicKey().line;
    const file = join(temporaryFolder(), "known_hosts");
    const names = [
      "alpha",
      "[alpha]:2222,beta",
      "[beta]:2222",
      "Gamma",
      "[gamma]:2022,10.0.0.7",
      "::1,[::1]:2222",
      "alpha,gamma",
    ];
    const patterns = ["web*.example.test,!web2.example.test", "10.0.0.?", "[web1.example.test]:80*", "!alpha,*"];
    const lines = [
      "# a comment",
      "",
      ...names.map((name) => `${name} ${key} trailing comment`),
      `@revoked beta ${key}`,
      `\talpha\t${key}`,
    ];
    // ssh-keygen -H leaves patterns as they are.
    writeFileSync(file, [...lines, ...patterns.map((pattern) => `${pattern} ${key}`)].join("\n"));
    if (hashed) {
      execFileSync("ssh-keygen", ["-H", "-f", file], { stdio: "ignore" });
      expect(readFileSync(file, "utf8")).toContain("|1|");
    }
    for (const [host, port] of HOSTS) {
      const ours = knownHostKeys([file], host, port).filter((found) => !found.withoutPort);
      const theirs = linesFoundByOpenSsh(file, knownHostName(host, port));
      expect([host, port, ours.map(({ line }) => line)]).toEqual([host, port, theirs]);
    }
  });

  it.each([false, true])("writes lines that OpenSSH finds (hashed: %s)", (hashed) => {
    const file = join(temporaryFolder(), "known_hosts");
    const keys = HOSTS.slice(1, 6).map(([host, port]) => {
      const key = publicKey();
      appendHostKey(file, host, port, key.blob, hashed);
      return { name: knownHostName(host, port), line: key.line };
    });
    for (const { name, line } of keys) {
      const { stdout } = spawnSync("ssh-keygen", ["-F", name, "-f", file], { encoding: "utf8" });
      expect(stdout).toContain(line);
    }
  });
});

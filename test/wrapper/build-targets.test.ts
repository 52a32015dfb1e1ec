import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { startTargets } from "../support/targets.ts";

/** Answers as docker-compose does, for services that are up. */
const COMPOSE = `#!/bin/sh
case "$1 $2 $3" in
  "port debian 22") echo 127.0.0.1:40001 ;;
  "port alpine 22") echo 127.0.0.1:40002 ;;
  "port bastion 22") echo 127.0.0.1:40003 ;;
  "exec -T "*) echo "ssh-ed25519 KEY-OF-$3 root@$3" ;;
  *) echo "unexpected: $*" >&2; exit 1 ;;
esac
`;

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "compose-"));
  writeFileSync(join(folder, "docker-compose"), COMPOSE);
  chmodSync(join(folder, "docker-compose"), 0o755);
  writeFileSync(join(folder, "key"), "");
  vi.stubEnv("PATH", `${folder}${delimiter}${process.env.PATH}`);
  vi.stubEnv("PASEO_TEST_TARGETS", "compose");
  vi.stubEnv("PASEO_TEST_AUTHORIZED_KEYS", join(folder, "key.pub"));
});

afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

describe("targets of docker-compose.yml", () => {
  test("are reached at their published ports, with host keys read inside them", async () => {
    const targets = await startTargets();
    const options = Object.fromEntries(targets.map((target) => [target.name, target.options()]));
    const key = join(folder, "key");
    expect(options).toMatchObject({
      debian: { host: "127.0.0.1", port: 40001, user: "build", identityFile: key },
      alpine: { host: "127.0.0.1", port: 40002, user: "build", identityFile: key },
      inner: { host: "inner", port: 22, user: "build", identityFile: key, proxyJump: "bastion" },
    });
    expect(targets[0]?.options({ port: 1, root: "/x" })).toMatchObject({ host: "127.0.0.1", port: 1, root: "/x" });

    const { knownHostsFile, sshConfigFile } = options.inner as Record<string, string>;
    expect(readFileSync(knownHostsFile!, "utf8").trim().split("\n").sort()).toEqual([
      "[127.0.0.1]:40001 ssh-ed25519 KEY-OF-debian root@debian",
      "[127.0.0.1]:40002 ssh-ed25519 KEY-OF-alpine root@alpine",
      "[127.0.0.1]:40003 ssh-ed25519 KEY-OF-bastion root@bastion",
      "inner ssh-ed25519 KEY-OF-inner root@inner",
    ]);
    expect(readFileSync(sshConfigFile!, "utf8")).toContain(
      "Host bastion\n  HostName 127.0.0.1\n  Port 40003\n  User build\n",
    );

    for (const target of targets) {
      expect(existsSync(knownHostsFile!)).toBe(true);
      await target.stop();
    }
    expect(existsSync(knownHostsFile!)).toBe(false);
  });

  test("need a public key whose private key is there", async () => {
    vi.stubEnv("PASEO_TEST_AUTHORIZED_KEYS", join(folder, "other.pub"));
    await expect(startTargets()).rejects.toThrow("PASEO_TEST_AUTHORIZED_KEYS");
  });

  test("are the only other ones that can be named", async () => {
    vi.stubEnv("PASEO_TEST_TARGETS", "kubernetes");
    await expect(startTargets()).rejects.toThrow('PASEO_TEST_TARGETS is "kubernetes"');
  });
});

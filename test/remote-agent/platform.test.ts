import { expect, it } from "vitest";
import { agentFolderName, filesFor, isMusl, type Platform, thisPlatform } from "../../remote-agent/platform.ts";
import { notLoaded } from "../../remote-agent/terminal-workload.ts";

const FILES = [
  { path: "agent.cjs" },
  { path: "pty/darwin-arm64/pty.node", platform: "darwin-arm64" },
  { path: "pty/linux-arm64/pty.node", platform: "linux-arm64" },
  { path: "pty/linux-x64/pty.node", platform: "linux-x64" },
];

it.each<[Platform, string, string[]]>([
  [{ name: "linux-x64", libc: "glibc" }, "0123-linux-x64", ["agent.cjs", "pty/linux-x64/pty.node"]],
  [{ name: "linux-arm64", libc: "glibc" }, "0123-linux-arm64", ["agent.cjs", "pty/linux-arm64/pty.node"]],
  [{ name: "linux-x64", libc: "musl" }, "0123-linux-x64-musl", ["agent.cjs"]],
  [{ name: "linux-riscv64", libc: "glibc" }, "0123-linux-riscv64", ["agent.cjs"]],
  [{ name: "darwin-arm64", libc: "system" }, "0123-darwin-arm64", ["agent.cjs", "pty/darwin-arm64/pty.node"]],
])("a host that is %j has its own folder and no module that was built for another", (platform, folder, paths) => {
  expect(agentFolderName("0123", platform)).toBe(folder);
  expect(filesFor(FILES, platform).map(({ path }) => path)).toEqual(paths);
});

it("tells the C library by the loader that the process has mapped", () => {
  const line = (path: string) => `7f1200000000-7f1200001000 r-xp 00000000 08:01 1234    ${path}\n`;
  expect(isMusl(line("/usr/bin/node") + line("/lib/ld-musl-x86_64.so.1"))).toBe(true);
  expect(isMusl(line("/usr/bin/node") + line("/lib64/ld-linux-x86-64.so.2"))).toBe(false);
  expect(thisPlatform().name).toBe(`${process.platform}-${process.arch}`);
});

it("says why a terminal module does not load there", () => {
  const old = notLoaded("/lib64/libc.so.6: version `GLIBC_2.28' not found (required by /root/pty.node)");
  expect(old).toMatchObject({ code: "terminal-unavailable", remedy: expect.stringMatching(/too old.*pipes/) });
  const noexec = notLoaded("/root/pty.node: failed to map segment from shared object");
  expect(noexec).toMatchObject({ code: "terminal-unavailable", remedy: expect.stringMatching(/pipes.*noexec/) });
});

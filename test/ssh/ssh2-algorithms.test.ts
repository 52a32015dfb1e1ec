import { describe, expect, it } from "vitest";
import { algorithmsFor, hostKeyAlgorithms } from "../../src/ssh/ssh2-algorithms.ts";

const OURS = [
  "ssh-ed25519",
  "ecdsa-sha2-nistp256",
  "ecdsa-sha2-nistp384",
  "ecdsa-sha2-nistp521",
  "rsa-sha2-512",
  "rsa-sha2-256",
];

describe("host key algorithms", () => {
  it.each([
    [undefined, OURS],
    ["rsa-sha2-256,ssh-ed25519", ["rsa-sha2-256", "ssh-ed25519"]],
    ["ssh-ed25519-cert-v01@openssh.com,ssh-ed25519", ["ssh-ed25519"]],
    ["rsa-*", ["rsa-sha2-512", "rsa-sha2-256"]],
    ["+ssh-rsa", [...OURS, "ssh-rsa"]],
    ["-ecdsa-*", ["ssh-ed25519", "rsa-sha2-512", "rsa-sha2-256"]],
    ["^rsa-sha2-256", ["rsa-sha2-256", ...OURS.filter((name) => name !== "rsa-sha2-256")]],
    ["sk-ssh-ed25519@openssh.com", []],
  ])("of %s", (configured, expected) => {
    expect(hostKeyAlgorithms(configured)).toEqual(expected);
  });

  it("go first when their keys are known", () => {
    expect(algorithmsFor(["ssh-rsa"], ["ssh-ed25519", "rsa-sha2-256"]).serverHostKey).toEqual([
      "rsa-sha2-256",
      "ssh-ed25519",
    ]);
  });
});

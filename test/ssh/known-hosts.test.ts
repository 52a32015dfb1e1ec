import { createHmac } from "node:crypto";
import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { checkHostKey, keyTypeOf, knownHostKeys } from "../../src/ssh/known-hosts.ts";
import { appendHostKey } from "../../src/ssh/known-hosts-append.ts";
import { publicKey, temporaryFolder } from "./support.ts";

function filesWith(...contents: string[]): string[] {
  const folder = temporaryFolder();
  return contents.map((content, index) => {
    const file = join(folder, `known_hosts${index}`);
    writeFileSync(file, content);
    return file;
  });
}

const key = publicKey();
const other = publicKey();
const ecdsa = publicKey("ecdsa");

describe("checkHostKey", () => {
  it("knows a host by name, by address with a port, and by one of several names", () => {
    const files = filesWith(`alpha,10.0.0.1 ${key.line} a comment\n[beta]:2222 ${key.line}\n`);
    expect(checkHostKey(files, "alpha", 22, key.blob)).toEqual({
      verdict: "known",
      file: files[0],
      line: 1,
      knownTypes: ["ssh-ed25519"],
    });
    expect(checkHostKey(files, "ALPHA", 22, key.blob).verdict).toBe("known");
    expect(checkHostKey(files, "10.0.0.1", 22, key.blob).verdict).toBe("known");
    expect(checkHostKey(files, "beta", 2222, key.blob)).toMatchObject({ verdict: "known", line: 2 });
    expect(checkHostKey(files, "beta", 22, key.blob).verdict).toBe("unknown");
    expect(checkHostKey(files, "gamma", 22, key.blob)).toEqual({ verdict: "unknown", knownTypes: [] });
  });

  it("follows patterns and their negation", () => {
    const files = filesWith(`*.example.test,!bad.example.test ${key.line}\n`);
    expect(checkHostKey(files, "good.example.test", 22, key.blob).verdict).toBe("known");
    expect(checkHostKey(files, "bad.example.test", 22, key.blob).verdict).toBe("unknown");
  });

  it("reads hashed names", () => {
    const salt = Buffer.alloc(20, 7);
    const hash = createHmac("sha1", salt).update("[alpha]:2222").digest("base64");
    const files = filesWith(`|1|${salt.toString("base64")}|${hash} ${key.line}\n|2|x|y ${key.line}\n`);
    expect(checkHostKey(files, "alpha", 2222, key.blob).verdict).toBe("known");
    expect(checkHostKey(files, "alpha", 22, key.blob).verdict).toBe("unknown");
  });

  it("calls another key changed and points at the line, even when only the type differs", () => {
    const files = filesWith("# none here\n", `\n# comment\nalpha ${ecdsa.line}\nalpha ${key.line}\n`);
    expect(checkHostKey(files, "alpha", 22, other.blob)).toEqual({
      verdict: "changed",
      file: files[1],
      line: 4,
      knownTypes: ["ecdsa-sha2-nistp256", "ssh-ed25519"],
    });
    const onlyEcdsa = filesWith(`alpha ${ecdsa.line}\n`);
    expect(checkHostKey(onlyEcdsa, "alpha", 22, key.blob)).toMatchObject({ verdict: "changed", line: 1 });
  });

  it("refuses a revoked key wherever it stands, and only that key", () => {
    const files = filesWith(`alpha ${key.line}\n@revoked * ${key.line}\nalpha ${other.line}\n`);
    expect(checkHostKey(files, "alpha", 22, key.blob)).toMatchObject({ verdict: "revoked", line: 2 });
    expect(checkHostKey(files, "alpha", 22, other.blob).verdict).toBe("known");
    expect(checkHostKey(files, "alpha", 2222, key.blob).verdict).toBe("revoked");
  });

  it("takes the plain name for another port as good, never as changed", () => {
    const files = filesWith(`alpha ${key.line}\n`);
    expect(checkHostKey(files, "alpha", 2222, key.blob)).toMatchObject({ verdict: "known", line: 1 });
    expect(checkHostKey(files, "alpha", 2222, other.blob)).toMatchObject({
      verdict: "unknown",
      knownTypes: ["ssh-ed25519"],
    });
  });

  it("passes over authorities, old keys, damage and missing files", () => {
    const lines = [
      `@cert-authority alpha ${key.line}`,
      `@unheard-of alpha ${key.line}`,
      "alpha 1024 35 12345678901234567890",
      `alpha ssh-rsa ${key.line.split(" ")[1]}`,
      "alpha ssh-ed25519 !!!!",
      "alpha ssh-ed25519",
      "alpha",
      "",
    ];
    const files = [...filesWith(lines.join("\n")), "/nonexistent/known_hosts", temporaryFolder()];
    expect(checkHostKey(files, "alpha", 22, key.blob)).toEqual({ verdict: "unknown", knownTypes: [] });
  });

  it("reads lines with tabs, blanks in front and carriage returns", () => {
    const files = filesWith(`  alpha\t${key.line.replace(" ", "\t")} comment\r\n`);
    expect(checkHostKey(files, "alpha", 22, key.blob).verdict).toBe("known");
  });
});

describe("appendHostKey", () => {
  it("makes the folder and the file for their owner only", () => {
    const file = join(temporaryFolder(), "ssh", "known_hosts");
    appendHostKey(file, "Alpha", 2222, key.blob);
    expect(readFileSync(file, "utf8")).toBe(`[alpha]:2222 ${key.line}\n`);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(statSync(join(file, "..")).mode & 0o777).toBe(0o700);
  });

  it("begins a new line where the last one has no end, and keeps what is there", () => {
    const [file] = filesWith(`alpha ${key.line}`);
    appendHostKey(file!, "beta", 22, other.blob);
    appendHostKey(file!, "gamma", 22, ecdsa.blob);
    expect(readFileSync(file!, "utf8")).toBe(`alpha ${key.line}\nbeta ${other.line}\ngamma ${ecdsa.line}\n`);
  });

  it("hashes the name where that is wanted", () => {
    const file = join(temporaryFolder(), "known_hosts");
    appendHostKey(file, "alpha", 2222, key.blob, true);
    expect(readFileSync(file, "utf8")).not.toContain("alpha");
    expect(knownHostKeys([file], "alpha", 2222)).toMatchObject([{ type: "ssh-ed25519", withoutPort: false }]);
  });

  it("says so when it cannot write", () => {
    const folder = temporaryFolder();
    mkdirSync(join(folder, "known_hosts"));
    expect(() => appendHostKey(join(folder, "known_hosts"), "alpha", 22, key.blob)).toThrow(/EISDIR/);
  });
});

describe("keyTypeOf", () => {
  it.each([
    Buffer.alloc(0),
    Buffer.alloc(3),
    Buffer.alloc(8),
    Buffer.from([0xff, 0xff, 0xff, 0xff, 1]),
    Buffer.from([0, 0, 0, 9, 65]),
  ])("finds no type in %j", (blob) => {
    expect(keyTypeOf(blob)).toBeUndefined();
  });
});

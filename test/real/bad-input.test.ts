import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { afterAll, beforeAll, expect, it } from "vitest";
import { BuildHost, brokerPids, failureCode, namesIn } from "../support/build-host.ts";
import { describePrivileged, describeReal } from "../support/requirements.ts";
import type { RuntimeClient } from "../support/runtime.ts";
import { freePort } from "../support/sshd.ts";

/**
 * Input that is wrong before a host is reached, and hosts that cannot be used, as far as what they leave behind matters;
 * test/real/fault-catalogue.test.ts has what is said about each.
 */

describeReal("bad requests", () => {
  let host: BuildHost;
  let client: RuntimeClient;
  beforeAll(async () => {
    host = await BuildHost.start();
    client = host.client();
  });
  afterAll(() => host?.stop());

  const inspect = ["inspect", "--workspace-id", "w"];
  const create = ["create", "--workspace-id", "w"];
  type Request = Record<string, unknown>;
  const source = { kind: "git", url: "file:///nowhere", revision: "" };
  const rows: [what: string, args: string[], stdin: (request: Request) => string, code: string][] = [
    ["no value at all", inspect, () => "", "request-invalid"],
    ["white space", inspect, () => " \n", "request-invalid"],
    ["half a value", inspect, (request) => JSON.stringify(request).slice(0, -1), "request-invalid"],
    ["no JSON", inspect, () => "protocolVersion: 1", "request-invalid"],
    ["an array", inspect, (request) => JSON.stringify([request]), "request-invalid"],
    ["two values", inspect, (request) => JSON.stringify(request).repeat(2), "request-invalid"],
    ["a value and garbage", inspect, (request) => `${JSON.stringify(request)} x`, "request-invalid"],
    ["bytes that are not text", inspect, () => "\ud800", "request-invalid"],
    ["protocol version 2", inspect, changed({ protocolVersion: 2 }), "protocol-version-unsupported"],
    ["a version as text", inspect, changed({ protocolVersion: "1" }), "protocol-version-unsupported"],
    ["no version", inspect, changed({ protocolVersion: undefined }), "request-invalid"],
    ["an empty instance id", inspect, changed({ runtimeInstanceId: "" }), "request-invalid"],
    ["an unknown key", inspect, changed({ runtimeGeneration: 1 }), "request-invalid"],
    ["no options", inspect, changed({ options: undefined }), "request-invalid"],
    ["options without a host", inspect, changed({ options: {} }), "option-missing"],
    ["an unknown option", inspect, changed({ options: { host: "h", hots: 1 } }), "option-unknown"],
    ["an option of the wrong type", inspect, changed({ options: { host: "h", port: "22" } }), "option-invalid"],
    [
      "a host that looks like an option",
      inspect,
      changed({ options: { host: "-oProxyCommand=true" } }),
      "option-invalid",
    ],
    ["workspace ids that are none", ["reconcile"], changed({ workspaceIds: [1] }), "request-invalid"],
    ["a create without input", create, changed({}), "request-invalid"],
    ["a create for another workspace", create, changed({ input: input({ workspaceId: "v" }) }), "request-invalid"],
    ["an unknown key of input", create, changed({ input: { ...input({}), color: "red" } }), "request-invalid"],
    ["an unknown key of source", create, changed({ input: input({ source: { ...source, x: 1 } }) }), "request-invalid"],
    [
      "an unknown key of placement",
      create,
      changed({ input: { ...input({}), placement: { kind: "existing", slug: "s" } } }),
      "request-invalid",
    ],
    ["no workspace id", ["inspect"], changed({}), "usage"],
    ["an empty workspace id", ["inspect", "--workspace-id", ""], changed({}), "usage"],
    ["a flag twice", [...inspect, "--workspace-id", "w"], changed({}), "usage"],
    ["an unknown flag", [...inspect, "--force", "yes"], changed({}), "usage"],
    ["a signal without its name", ["signal", "--workspace-id", "w", "--exec-id", "e"], changed({}), "usage"],
    ["an unknown operation", ["inspekt", "--workspace-id", "w"], changed({}), "usage"],
  ];

  function changed(changes: Request): (request: Request) => string {
    return (request) => JSON.stringify({ ...request, ...changes });
  }

  function input(changes: { workspaceId?: string; source?: object }): Request {
    const { workspaceId = "w", source: from = source } = changes;
    return { workspaceId, project: { projectId: "p", source: from }, placement: { kind: "existing" } };
  }

  it.each(rows)("refuses %s", async (_what, args, stdin, code) => {
    expect(failureCode(await client.run(args, stdin(client.request())))).toBe(code);
  });

  it("has not even started a broker for them", () => {
    expect(brokerPids(client)).toEqual([]);
    expect(namesIn(client.brokerFolder).filter((name) => name.startsWith("broker"))).toEqual([]);
    expect(host.logins()).toBe(0);
  });

  it("refuses a request that is too long, without reading it all", async () => {
    const stdin = JSON.stringify(client.request({ workspaceIds: ["x".repeat(9 * 1024 * 1024)] }));
    expect(failureCode(await client.run(["reconcile"], stdin))).toBe("request-invalid");
  });
});

describeReal("hosts that cannot be used", () => {
  let host: BuildHost;
  let client: RuntimeClient;
  beforeAll(async () => {
    host = await BuildHost.start();
    client = host.client();
  });
  afterAll(() => host?.stop());

  function file(name: string, content: string): string {
    writeFileSync(host.path(name), content);
    return host.path(name);
  }

  function program(name: string, content: string): string {
    chmodSync(file(name, content), 0o755);
    return host.path(name);
  }

  const rows: [what: string, options: () => Promise<Record<string, unknown>>, code: string][] = [
    ["a node that is not there", async () => ({ node: "/nowhere/node" }), "node-missing"],
    ["a node that is none", async () => ({ node: program("not-node", "#!/bin/sh\necho hello\n") }), "node-missing"],
    ["a node that is too old", async () => ({ node: program("old-node", "#!/bin/sh\necho 16\n") }), "node-too-old"],
    ["a root that cannot be made", async () => ({ root: "/proc/paseo" }), "root-not-writable"],
    ["a root that is a file", async () => ({ root: file("a-file", "") }), "root-not-writable"],
  ];

  it.each(rows)("says so for %s", async (_what, options, code) => {
    const bad = client.with({ options: await options() });
    const before = host.listing();
    expect(failureCode(await bad.operation(["inspect", "--workspace-id", "w"]))).toBe(code);
    expect(host.listing()).toEqual(before);
    expect(host.agentPids()).toEqual([]);
  });

  it("gives up a host that never answers", async () => {
    const fifo = host.path("fifo");
    execFileSync("mkfifo", [fifo]);
    const stuck = program("stuck-node", `#!/bin/sh\nexec cat ${fifo}\n`);
    const bad = client.with({ options: { node: stuck, connectTimeoutMs: 1000 } });
    expect(failureCode(await bad.operation(["inspect", "--workspace-id", "w"]))).toBe("agent-start-failed");
    // Lets the stuck program go.
    writeFileSync(fifo, "");
  });

  it("says the same to an exec, on descriptor 4 as well", async () => {
    const bad = client.with({ options: { port: await freePort() } });
    const result = await bad.execute("w", ["true"]);
    expect(result).toMatchObject({ code: 125, stdout: Buffer.alloc(0) });
    expect(result.events).toEqual([
      { type: "error", protocolVersion: 1, message: expect.stringMatching(/\[connection-refused\]$/) },
    ]);
    expect(result.stderr.toString("utf8")).toBe(`${result.events[0]!.message}\n`);
  });
});

describePrivileged("a root on a file system that executes nothing", () => {
  it("is refused", async () => {
    const host = await BuildHost.start();
    const root = host.path("noexec");
    mkdirSync(root);
    execFileSync("mount", ["-t", "tmpfs", "-o", "noexec", "none", root]);
    try {
      const client = host.client({ root });
      const result = await client.operation(["inspect", "--workspace-id", "w"]);
      expect(failureCode(result)).toBe("root-not-executable");
      expect(namesIn(root)).toEqual([]);
    } finally {
      execFileSync("umount", [root]);
      await host.stop();
    }
  });
});

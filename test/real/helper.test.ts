import { createHash } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { BuildHost, failureCode, namesIn } from "../support/build-host.ts";
import { installCopy } from "../support/installation.ts";
import { describeReal } from "../support/requirements.ts";
import type { RuntimeClient } from "../support/runtime.ts";

const COMMAND = "paseo-workspace-helper";
const SHELL = '#!/bin/sh\necho "shell $*"\n';
const COMMON_JS =
  '#!/usr/bin/env node\nconst { basename } = require("node:path");\nconsole.log(basename("a/common"), ...process.argv.slice(2));\n';
const MODULE =
  '#!/usr/bin/env node\nimport { basename } from "node:path";\nconsole.log(basename("a/module"), ...process.argv.slice(2));\n';

describeReal("the workspace helper", () => {
  let host: BuildHost;
  let base: RuntimeClient;
  beforeAll(async () => {
    host = await BuildHost.start();
    base = host.client();
    mkdirSync(host.path("empty"));
  });
  afterAll(() => host?.stop());

  function file(name: string, text: string): string {
    const path = host.path(name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
    chmodSync(path, 0o755);
    return path;
  }

  const withHelper = (helper: string, options = {}) => base.with({ options: { helper, ...options } });

  const folderOf = (text: string) => join(host.root, "helper", createHash("sha256").update(text).digest("hex"));
  const firstOnPath = (answer: { state: { lifecycleEnvironment: { PATH: string } } }) =>
    answer.state.lifecycleEnvironment.PATH.split(":")[0];

  async function create(client: RuntimeClient, id: string) {
    return await client.create(id, { kind: "directory", path: host.path("empty") });
  }

  async function callHelper(client: RuntimeClient, id: string, env: Record<string, string> = {}): Promise<string> {
    const result = await client.execute(id, [COMMAND, "describe", "--json"], {
      env,
      purpose: { kind: "workspace-helper" },
    });
    expect([result.code, result.stderr.toString("utf8")]).toEqual([0, ""]);
    return result.stdout.toString("utf8");
  }

  it.each([
    ["a shell script", "helpers/shell", SHELL, "shell"],
    ["a CommonJS script", "helpers/common", COMMON_JS, "common"],
    ["a CommonJS script in a package of modules", "modules/helper.cjs", COMMON_JS, "common"],
    ["a module by its name", "helpers/helper.mjs", MODULE, "module"],
    ["a module by its package", "modules/helper.js", MODULE, "module"],
  ])("is deployed by its content, first on PATH, and runs by its bare name: %s", async (_what, path, text, word) => {
    file("modules/package.json", '{"type":"module"}');
    const client = withHelper(file(path, text), { path: ["/opt/tools"] });
    const id = host.newName();
    const answer = await create(client, id);
    expect(firstOnPath(answer)).toBe(folderOf(text));
    // With nothing in the environment, with no PATH in it, and as a newer Paseo calls it.
    expect(await callHelper(client, id)).toBe(`${word} describe --json\n`);
    expect(await callHelper(client, id, { HOME: "/" })).toBe(`${word} describe --json\n`);
    expect(await callHelper(client, id, answer.state.lifecycleEnvironment)).toBe(`${word} describe --json\n`);
    expect(
      (await client.execute(id, ["sh", "-c", `${COMMAND} inner`], { env: answer.state.lifecycleEnvironment })).code,
    ).toBe(0);
  });

  it("is updated when the local file changes, for old workspaces too", async () => {
    const path = file("changing", SHELL);
    const client = withHelper(path);
    expect(firstOnPath(await create(client, "changing"))).toBe(folderOf(SHELL));
    const text = '#!/bin/sh\necho "newer $*"\n';
    file("changing", text);
    expect(firstOnPath(await client.inspect("changing"))).toBe(folderOf(text));
    expect(await callHelper(client, "changing")).toBe("newer describe --json\n");
    expect(existsSync(folderOf(SHELL))).toBe(true);

    const newest = '#!/bin/sh\necho "newest $*"\n';
    file("changing", newest);
    await client.ok(["pause", "--workspace-id", "changing"]);
    expect(firstOnPath(await client.ok(["resume", "--workspace-id", "changing"]))).toBe(folderOf(newest));
    expect(await callHelper(client, "changing")).toBe("newest describe --json\n");
  });

  it("arrives whole when many ask for it at once, and a large one as well", async () => {
    const text = `#!/bin/sh\nwc -c <"$0"\nexit\n${"#".repeat(20 * 1024 * 1024)}\n`;
    const client = withHelper(file("large", text));
    await Promise.all(Array.from({ length: 4 }, (_, index) => create(client, `large-${index}`)));
    expect(Number(await callHelper(client, "large-0"))).toBe(text.length);
    expect(namesIn(join(host.root, "helper")).filter((name) => name.startsWith("."))).toEqual([]);
  });

  it("is put back when it is damaged on the host", async () => {
    const text = '#!/bin/sh\necho "whole $*"\n';
    const client = withHelper(file("whole", text));
    await create(client, "damaged");
    writeFileSync(join(folderOf(text), COMMAND), "#!/bin/sh\necho damaged\n");
    await host.killAgents();
    await client.inspect("damaged");
    expect(await callHelper(client, "damaged")).toBe("whole describe --json\n");
  });

  /** The package, with another one installed beside it. */
  function installation(name: string, helperManifest: object): string {
    const { launcher } = installCopy(host.path(name));
    const helper = join(name, "node_modules", "@getpaseo", "workspace-helper");
    file(join(helper, "package.json"), JSON.stringify(helperManifest));
    file(join(helper, "dist", "cli.js"), MODULE);
    return launcher;
  }

  const manifest = { name: "@getpaseo/workspace-helper", version: "1.0.0", type: "module" };
  it.each([
    ["bin is a path", { ...manifest, bin: "./dist/cli.js" }],
    ["bin names the command", { ...manifest, bin: { other: "./no.js", [COMMAND]: "dist/cli.js" } }],
    ["exports hide package.json", { ...manifest, bin: "dist/cli.js", exports: { ".": "./dist/cli.js" } }],
  ])("is found in the package that is installed beside this one: %s", async (_what, helperManifest) => {
    const launcher = installation(host.newName("installation"), helperManifest);
    const client = host.client({ helper: undefined }, { launcher });
    const id = host.newName();
    expect(firstOnPath(await create(client, id))).toBe(folderOf(MODULE));
    expect(await callHelper(client, id)).toBe("module describe --json\n");
  });

  it("may be missing for everything but a create", async () => {
    const { launcher } = installCopy(host.path("without"));
    const client = host.client({ helper: undefined }, { launcher });
    const input = client.createInput("without", { kind: "directory", path: host.path("empty") });
    expect(failureCode(await client.operation(["create", "--workspace-id", "without"], input))).toBe(
      "helper-not-found",
    );
    expect(await client.inspect("without")).toEqual({ status: "missing" });

    const none = client.with({ options: { helper: false } });
    expect(firstOnPath(await create(none, "without"))).not.toContain(host.root);
    expect((await client.inspect("without")).status).toBe("ready");
    expect((await client.execute("without", ["true"])).code).toBe(0);
    await client.ok(["pause", "--workspace-id", "without"]);
    await client.ok(["resume", "--workspace-id", "without"]);
    await client.ok(["reconcile"], { workspaceIds: ["without"] });
    await client.destroy("without");
  });

  it("that the options name has to be there", async () => {
    for (const path of [host.path("nowhere"), host.path("empty")]) {
      const client = withHelper(path);
      const input = client.createInput("named", { kind: "directory", path: host.path("empty") });
      expect(failureCode(await client.operation(["create", "--workspace-id", "named"], input))).toBe(
        "helper-not-found",
      );
    }
  });
});

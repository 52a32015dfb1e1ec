import { chmodSync } from "node:fs";
import type { RuntimeClient, SpawnOptions } from "../runtime.ts";
import type { OperationFault, Told } from "./fault.ts";
import { deepFolder, type FaultWorld } from "./world.ts";

/** What single operations fail with, on a host that can be reached. */

type Provoke = OperationFault["provoke"];

function create(source: (world: FaultWorld) => object, placement: object = { kind: "existing" }): Provoke {
  return async (world) => await createWith(world.client, source(world), placement);
}

async function createWith(
  client: RuntimeClient,
  source: object,
  placement: object = { kind: "existing" },
): Promise<Told> {
  return await client.operation(["create", "--workspace-id", "bad"], client.createInput("bad", source, placement));
}

function execute(options: Partial<SpawnOptions>, workspaceId = "ready"): Provoke {
  return async ({ client }) => told(await client.execute(workspaceId, options.argv ?? ["true"], options));
}

function told({ code, stderr }: { code: number | null; stderr: Buffer }): Told {
  return { code, stderr: stderr.toString("utf8") };
}

function inspectIn(runtimeFolder: (world: FaultWorld) => string): Provoke {
  return async (world) => {
    const elsewhere = world.client.with({});
    elsewhere.env.PASEO_SSH_RUNTIME_DIR = runtimeFolder(world);
    return await elsewhere.operation(["inspect", "--workspace-id", "w"]);
  };
}

const gitSource =
  (changes: object = {}) =>
  ({ url }: FaultWorld) => ({ kind: "git", url, revision: "", ...changes });
const branchOff = (baseBranch: string, branchName: string) => ({
  kind: "resolved-worktree",
  worktreeSlug: "slug",
  source: { kind: "branch-off", baseBranch, branchName },
});

export const OPERATION_FAULTS: OperationFault[] = [
  {
    what: "a runtime folder that others can read",
    code: "runtime-folder-unsafe",
    sentence: /^The folder \S+ (?:is open to other users|is not a folder|belongs to another user)/,
    provoke: inspectIn((world) => {
      const folder = world.folder();
      chmodSync(folder, 0o755);
      return folder;
    }),
  },
  {
    what: "a runtime folder that is a file",
    code: "runtime-folder-unsafe",
    sentence: /^The folder \S+ (?:is open to other users|is not a folder|belongs to another user)/,
    provoke: inspectIn((world) => world.file("")),
    names: "is not a folder",
  },
  {
    what: "a runtime folder whose path is too long for a socket",
    code: "broker-start-failed",
    sentence: /^The path of the runtime folder \S+ is too long for the sockets in it/,
    provoke: inspectIn(deepFolder),
  },
  {
    what: "no request",
    code: "request-invalid",
    sentence: /^The lifecycle request on stdin is missing/,
    provoke: ({ client }) => client.run(["inspect", "--workspace-id", "w"], ""),
  },
  {
    what: "another version of the protocol",
    code: "protocol-version-unsupported",
    sentence: /^Protocol version \S+ is not supported/,
    provoke: ({ client }) => client.operation(["inspect", "--workspace-id", "w"], { protocolVersion: 2 }),
  },
  {
    what: "an operation without its flags",
    code: "usage",
    sentence: /^The operation [a-z]+ needs/,
    provoke: ({ client }) => client.run(["inspect"]),
    names: "--workspace-id",
  },
  {
    what: "a helper that is not there",
    code: "helper-not-found",
    sentence: /^The workspace helper \S+ cannot be used/,
    provoke: async ({ client, url }) =>
      await createWith(client.with({ options: { helper: "/nowhere/helper" } }), { kind: "git", url, revision: "" }),
    names: "/nowhere/helper",
  },
  {
    what: "a git URL of no kind",
    code: "source-unsupported",
    sentence: /^".+" is not a git URL that can be used/,
    provoke: create(gitSource({ url: "some words" })),
  },
  {
    what: "a repository that is not there",
    code: "git-source-unreachable",
    sentence: /^The git source \S+ cannot be read from the host/,
    provoke: create(gitSource({ url: "file:///nowhere/repository" })),
    names: "/nowhere/repository",
  },
  {
    what: "an unknown revision",
    code: "revision-unknown",
    sentence: /^The git source \S+ has no revision ".+"/,
    provoke: create(gitSource({ revision: "v9" })),
    names: "v9",
  },
  {
    what: "a missing subdirectory",
    code: "subdirectory-missing",
    sentence: /^The source has no folder ".+"/,
    provoke: create(gitSource({ subdirectory: "nowhere" })),
    names: "nowhere",
  },
  {
    what: "a missing local directory",
    code: "source-missing",
    sentence: /^\/.+ does not exist on this machine/,
    provoke: create(() => ({ kind: "directory", path: "/nowhere/source" })),
    names: "/nowhere/source",
  },
  {
    what: "an unknown branch",
    code: "branch-unknown",
    sentence: /^The source has no base branch ".+"/,
    provoke: create(gitSource(), branchOff("nowhere", "new")),
    names: "nowhere",
  },
  {
    what: "a branch name that git refuses",
    code: "branch-name-invalid",
    sentence: /^".+" is not a valid name for a git branch/,
    provoke: create(gitSource(), branchOff("main", "a..b")),
    names: "a..b",
  },
  {
    what: "a change request that is not there",
    code: "change-request-unavailable",
    sentence: /^The change request of \S+ could not be fetched/,
    provoke: create(gitSource(), {
      kind: "resolved-worktree",
      worktreeSlug: "slug",
      source: { kind: "checkout-github-pr", githubPrNumber: 17, headRef: "fix", baseRefName: "main" },
    }),
    names: "17",
  },
  {
    what: "a local git directory without git here",
    code: "git-missing",
    sentence: /^The program git was not found/,
    provoke: async ({ client, host }) =>
      await createWith(client.with({ env: { PATH: "/nowhere" } }), {
        kind: "directory",
        path: host.path("repository"),
      }),
  },
  {
    what: "a workspace that is not there",
    code: "workspace-missing",
    sentence: /^There is no workspace ".+" on the build host/,
    provoke: ({ client }) => client.operation(["pause", "--workspace-id", "nowhere"]),
    names: "nowhere",
  },
  {
    what: "a workspace that is paused",
    code: "workspace-paused",
    sentence: /^The workspace ".+" is paused/,
    provoke: execute({}, "paused"),
    names: "paused",
  },
  {
    what: "a workspace of another installation",
    code: "workspace-owned-elsewhere",
    sentence: /^The workspace ".+" belongs to another Paseo installation/,
    provoke: ({ client }) =>
      client.with({ runtimeInstanceId: "another" }).operation(["inspect", "--workspace-id", "ready"]),
    names: "ready",
  },
  {
    what: "a workspace that is damaged",
    code: "workspace-broken",
    sentence: /^The workspace folder \S+ is damaged/,
    provoke: execute({}, "broken"),
    names: "broken",
  },
  {
    what: "a working folder outside",
    code: "cwd-outside-workspace",
    sentence: /^The working folder ".+" leads out of the workspace/,
    provoke: execute({ cwd: "out" }),
    names: "out",
  },
  {
    what: "a missing working folder",
    code: "cwd-missing",
    sentence: /^The working folder ".+" does not exist in the workspace/,
    provoke: execute({ cwd: "nowhere" }),
    names: "nowhere",
  },
  {
    what: "a program that is not there",
    code: "program-not-found",
    sentence: /^The program ".+" was not found on the build host/,
    provoke: execute({ argv: ["no-such-program"] }),
    names: "no-such-program",
  },
  {
    what: "a file that is not executable",
    code: "program-not-executable",
    sentence: /^The program \S+ is not executable on the build host/,
    provoke: execute({ argv: ["./folder/file"] }),
    names: "/folder/file",
  },
  {
    what: "an execution id that was used before",
    code: "exec-id-reused",
    sentence: /^The execution id ".+" was used before in this workspace/,
    provoke: async ({ client }) => {
      await client.execute("ready", ["true"], { execId: "used-before" });
      return told(await client.execute("ready", ["true"], { execId: "used-before" }));
    },
    names: "used-before",
  },
  {
    what: "an argument that no process can have",
    code: "spawn-invalid",
    sentence: /^A word of argv, cwd, or the name of the terminal contains a NUL/,
    provoke: execute({ argv: ["echo", "a\0b"] }),
  },
  {
    what: "a line that is no control",
    code: "control-invalid",
    sentence: /^A message is not JSON/,
    provoke: async ({ client }) => {
      const exec = client.exec("ready", { argv: ["sleep", "60"], stdio: { kind: "pty", rows: 24, cols: 80 } });
      await exec.started();
      exec.control.write("resize\n");
      return told(await exec.result());
    },
  },
  {
    what: "a signal that does not exist",
    code: "signal-unknown",
    sentence: /^There is no signal named \S+ on the build host/,
    provoke: async ({ client }) => {
      const exec = client.exec("ready", { argv: ["sleep", "60"] });
      await exec.started();
      const refused = await client.signal("ready", exec.execId, "SIGNONE");
      await client.signal("ready", exec.execId, "SIGKILL");
      await exec.result();
      return refused;
    },
    names: "SIGNONE",
  },
  {
    what: "a signal to nobody",
    code: "execution-unknown",
    sentence: /^There is no execution ".+" in this workspace/,
    provoke: ({ client }) => client.signal("ready", "never-started", "SIGTERM"),
    names: "never-started",
  },
];

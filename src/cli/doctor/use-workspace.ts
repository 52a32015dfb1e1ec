import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { RuntimeOptions } from "../../ssh/index.ts";
import { RuntimeError } from "../../wire/errors.ts";
import { runtimeFolder } from "../../wire/runtime-folder.ts";
import { requireHelper } from "../../wrapper/helper.ts";
import { askBrokers } from "../broker-client.ts";
import { Exec, type Installation, runOperation } from "../consumer/index.ts";
import { type Examination, Pointless } from "./examination.ts";
import { echoTime } from "./terminal-echo.ts";
import { failureOf, lifecycleAnswer, withinLimit } from "./wrapper-result.ts";

/** The steps that Paseo would take: a workspace, a command and a terminal in it, each through the real wrapper. */

/** Folder of package.json: the bundle is in dist. */
const PACKAGE_ROOT = join(import.meta.dirname, "..");
const INPUT = "through standard input\n";
/** Milliseconds that the broker gets to let go of what was interrupted, and between two looks at it. */
const LEAVING_MS = 5000;
const LOOK_MS = 50;
const SCRIPT = "cat; echo to standard error >&2; exit 3";

/** Failures in here are recorded; those steps are left out that they make pointless. */
export async function useWorkspace(
  examination: Examination,
  rawOptions: Record<string, unknown>,
  options: RuntimeOptions,
  signal: AbortSignal,
): Promise<void> {
  const brokersBefore = await examination.step("broker", findBrokers);
  const hasHelper = await findHelper(examination, options);
  const installation: Installation = {
    launcher: join(PACKAGE_ROOT, "bin/paseo-ssh-runtime.cjs"),
    // An owner of its own, so that no workspace of Paseo's can be meant by anything that happens here.
    runtimeInstanceId: randomBytes(32).toString("hex"),
    options: hasHelper ? rawOptions : { ...rawOptions, helper: false },
    env: process.env,
  };
  const workspaceId = `paseo-doctor-${randomBytes(8).toString("hex")}`;
  const source = mkdtempSync(join(tmpdir(), "paseo-doctor-"));
  try {
    const env = await examination.step("workspace", () =>
      create({ ...installation, abortSignal: signal }, workspaceId, source),
    );
    const abortable = { ...installation, abortSignal: signal };
    await examination.step("exec", () => execute(abortable, workspaceId, env)).catch(goOn);
    await examination.step("terminal", () => echoTime(abortable, workspaceId, env)).catch(goOn);
  } finally {
    rmSync(source, { recursive: true, force: true });
    await examination.step("clean-up", () => cleanUp(installation, workspaceId, brokersBefore)).catch(goOn);
  }
}

/** A terminal may work where a command does not; and what was made has to go in any case. */
function goOn(error: unknown): void {
  if (!(error instanceof Pointless)) throw error;
}

async function findBrokers() {
  const brokers = await askBrokers({ type: "status" });
  const pids = brokers.flatMap((reply) => (reply.type === "status" ? [reply.pid] : []));
  const found = { folder: runtimeFolder(process.env), processes: pids.map(String) };
  return { found, value: pids };
}

/** Without a helper `create` fails, but everything else can still be examined. */
async function findHelper(examination: Examination, options: RuntimeOptions): Promise<boolean> {
  try {
    return await examination.step("helper", async () => {
      const helper = requireHelper(options);
      return { found: { file: helper?.path ?? "none, as the options say" }, value: true };
    });
  } catch (error) {
    goOn(error);
    return false;
  }
}

async function create(installation: Installation, workspaceId: string, source: string) {
  const input = {
    workspaceId,
    project: { projectId: "doctor", source: { kind: "directory", path: source } },
    placement: { kind: "existing" },
  };
  const answer = await lifecycleAnswer(installation, "create", workspaceId, { input });
  if (answer.type !== "state") throw new RuntimeError("wire-violation", `create was answered with ${answer.type}`);
  return { found: { folder: answer.placement.cwd }, value: answer.state.lifecycleEnvironment ?? {} };
}

async function execute(installation: Installation, workspaceId: string, env: Record<string, string>) {
  return await withinLimit("exec", installation, async (limited) => {
    const begunAt = performance.now();
    const exec = new Exec(limited, workspaceId, { argv: ["/bin/sh", "-c", SCRIPT], env });
    exec.stdin.end(INPUT);
    const result = await exec.result();
    const { code, stdout, stderr } = result;
    if (code !== 3 || !stdout.equals(Buffer.from(INPUT)) || stderr.toString("utf8") !== "to standard error\n") {
      throw failureOf("exec", { ...result, stderr: stderr.toString("utf8") });
    }
    const found = { pipes: "input, both outputs and the exit status are right", wholeCommand: duration(begunAt) };
    return { found, value: undefined };
  });
}

function duration(begunAt: number): string {
  return `${Math.round(performance.now() - begunAt)} ms`;
}

async function cleanUp(installation: Installation, workspaceId: string, brokersBefore: readonly number[]) {
  const destroyed = await runOperation(installation, ["destroy", "--workspace-id", workspaceId]);
  const ended = brokersBefore.length === 0 && (await endUnusedBroker());
  if (destroyed.code !== 0) throw failureOf("destroy", destroyed);
  return { found: { workspace: "destroyed", broker: ended ? "ended" : "left as it was" }, value: undefined };
}

/** @returns false when somebody else has begun to use it. What this doctor has used may take a moment to be closed. */
async function endUnusedBroker(): Promise<boolean> {
  const deadline = performance.now() + LEAVING_MS;
  for (;;) {
    const replies = await askBrokers({ type: "status" });
    const hosts = replies.flatMap((reply) => (reply.type === "status" ? reply.hosts : []));
    if (hosts.every(({ channels }) => channels === 0)) break;
    if (performance.now() > deadline) return false;
    await delay(LOOK_MS);
  }
  return (await askBrokers({ type: "stop" })).length > 0;
}

import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";
import { RuntimeError } from "../../wire/errors.ts";
import { type DemoArguments, parseDemoArguments, USAGE } from "./arguments.ts";
import { cleanUp } from "./clean-up.ts";
import { measureNode } from "./measure-node.ts";
import { Screen } from "./screen.ts";
import { makeSource } from "./source.ts";
import { runSteps } from "./steps.ts";
import { type DemoTarget, embeddedTarget, realTarget } from "./target.ts";
import { timed } from "./timed.ts";

/**
 * `npm run demo`: drives the built runtime as Paseo does, against an SSH server inside this process or a real host, and
 * leaves nothing behind. Ends with 0 only when every step did what it should.
 */

/** Folder of package.json: the bundle is in dist. */
const PACKAGE_ROOT = join(import.meta.dirname, "..");
const WORKSPACE_ID = "demo";
const INTERRUPTIONS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
/** A longer path would leave no room for the sockets below it, characters. macOS has one of 49. */
const MAX_TEMPORARY_FOLDER = 15;

async function main(args: readonly string[]): Promise<void> {
  const interrupted = new AbortController();
  let exitCode = 0;
  const interrupt = (code: number) => {
    if (interrupted.signal.aborted) return;
    exitCode = code;
    interrupted.abort();
    process.stderr.write("\ninterrupted; cleaning up\n");
  };
  for (const signal of INTERRUPTIONS) process.on(signal, () => interrupt(128 + constants.signals[signal]));
  // Whoever reads this has seen enough (`npm run demo | head`).
  process.stdout.on("error", () => interrupt(1));
  process.stderr.on("error", () => {});
  try {
    const parsed = parseDemoArguments(args);
    if (parsed.kind === "help") process.stdout.write(USAGE);
    else await demonstrate(parsed, interrupted.signal);
  } catch (error) {
    exitCode ||= 1;
    // What fails because of an interruption is no news.
    if (!interrupted.signal.aborted) tell(error);
  }
  process.exit(exitCode);
}

function tell(error: unknown): void {
  process.stderr.write(`\n${RuntimeError.from(error).toLine()}\n`);
}

async function demonstrate(parsed: Exclude<DemoArguments, { kind: "help" }>, signal: AbortSignal): Promise<void> {
  const folder = mkdtempSync(join(tmpdir().length <= MAX_TEMPORARY_FOLDER ? tmpdir() : "/tmp", "psr-"));
  let target: DemoTarget | undefined;
  try {
    target = parsed.kind === "embedded" ? await embeddedTarget(folder) : realTarget(parsed.options);
    await demonstrateOn(target, folder, signal);
  } finally {
    await target?.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function demonstrateOn(target: DemoTarget, folder: string, signal: AbortSignal): Promise<void> {
  const screen = new Screen(process.stdout, process.env);
  const source = await makeSource(PACKAGE_ROOT, join(folder, "source"), signal);
  screen.text(`build host  ${target.description}`);
  screen.text(`source      ${source.description}, and one file that is not committed: ${source.uncommitted.name}`);
  const installation = {
    launcher: join(PACKAGE_ROOT, "bin/paseo-ssh-runtime.cjs"),
    runtimeInstanceId: randomBytes(32).toString("hex"),
    // The official helper is a package of Paseo's; nothing here needs one.
    options: { ...target.options, helper: false },
    env: { ...target.env, PASEO_SSH_RUNTIME_DIR: join(folder, "broker") },
  };
  try {
    await runSteps({
      installation: { ...installation, abortSignal: signal },
      workspaceId: WORKSPACE_ID,
      source,
      screen,
    });
  } catch (error) {
    await cleanUp(installation, WORKSPACE_ID, target).catch(tell);
    throw error;
  }
  screen.heading("clean up");
  const { milliseconds } = await timed(() => cleanUp(installation, WORKSPACE_ID, target));
  screen.text(farewell(target));
  screen.timing({ what: "clean up", milliseconds });
  screen.table("What took how long", {
    what: "for comparison: node -e 0",
    milliseconds: await measureNode(installation.env),
  });
}

function farewell({ ownRoot, options }: DemoTarget): string {
  return ownRoot === undefined
    ? `the broker has ended; the agent on ${options.host} ends by itself a minute after its last connection`
    : `the broker has ended, and so has the agent; its folder ${ownRoot} on the host is removed`;
}

void main(process.argv.slice(2));

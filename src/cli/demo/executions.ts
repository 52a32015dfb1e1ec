import { createCommandRuntimeProcessEventDecoder } from "../../contract/index.ts";
import { Exec, type ExecResult, type SpawnOptions } from "../consumer/index.ts";
import { expectSame, failureOf } from "./check.ts";
import type { DemoRun } from "./steps.ts";
import { Transcript } from "./transcript.ts";

const FIRST_SIZE = { rows: 24, cols: 80 };
const SECOND_SIZE = { rows: 40, cols: 132 };
const RESIZE_ID = 1;
/** Says the size of its terminal, waits for a line, and says it again. */
const TERMINAL_PROGRAM = 'echo "before: $(stty size)"; read -r line; echo "after: $(stty size)"';

/**
 * Runs a command with pipes to its end and shows what happens.
 * @param what its name in the table of timings
 * @throws RuntimeError when it fails
 */
export async function execute(
  run: DemoRun,
  what: string,
  argv: string[],
  env: Record<string, string>,
): Promise<{ stdout: string }> {
  const start = performance.now();
  const { exec, transcript } = await begin(run, what, { argv, env });
  const startedMs = performance.now() - start;
  exec.stdin.end();
  const result = await end(what, exec, transcript, "pipes");
  run.screen.timing(
    { what, until: "until started", milliseconds: startedMs },
    { what, until: "until the wrapper ended", milliseconds: performance.now() - start },
  );
  return { stdout: result.stdout.toString("utf8") };
}

/** A program in a terminal that is resized while it runs. @throws RuntimeError when it sees another size than it should */
export async function showTerminal(run: DemoRun, env: Record<string, string>): Promise<void> {
  const { screen } = run;
  const what = "exec in a terminal";
  screen.heading(`exec in a terminal of ${sizeText(FIRST_SIZE)}, resized to ${sizeText(SECOND_SIZE)}`);
  const start = performance.now();
  const { exec, transcript } = await begin(run, what, {
    argv: ["/bin/sh", "-c", TERMINAL_PROGRAM],
    env,
    purpose: { kind: "terminal" },
    stdio: { kind: "pty", ...FIRST_SIZE, term: "xterm-256color" },
  });
  const startedMs = performance.now() - start;
  await exec.until(() => /before: [^\n]*\n/.test(exec.output));

  const resize = JSON.stringify({ type: "resize", protocolVersion: 1, id: RESIZE_ID, ...SECOND_SIZE });
  const resizeStart = performance.now();
  exec.control.write(`${resize}\n`);
  transcript.sent(3, resize);
  await exec.event((event) => event.type === "resized" && event.id === RESIZE_ID);
  const resizeMs = performance.now() - resizeStart;
  exec.stdin.write("go on\n");
  transcript.sent(0, "go on");
  await exec.event((event) => event.type === "exit");
  exec.stdin.end();
  exec.control.end();

  const result = await end(what, exec, transcript, "pty");
  const said = result.stdout.toString("utf8").match(/(?:before|after): .*?(?=\r\n)/g) ?? [];
  const expected = [`before: ${FIRST_SIZE.rows} ${FIRST_SIZE.cols}`, `after: ${SECOND_SIZE.rows} ${SECOND_SIZE.cols}`];
  expectSame(what, said.join(", "), expected.join(", "));
  screen.timing(
    { what, until: "until started", milliseconds: startedMs },
    { what, until: "from resize to resized", milliseconds: resizeMs },
  );
}

async function begin(
  { installation, workspaceId, screen }: DemoRun,
  what: string,
  options: SpawnOptions,
): Promise<{ exec: Exec; transcript: Transcript }> {
  const exec = new Exec(installation, workspaceId, options);
  const transcript = new Transcript(screen, exec);
  try {
    await exec.started();
  } catch {
    throw executionFailure(what, await exec.result());
  }
  transcript.flush();
  return { exec, transcript };
}

/** Waits for the end, which must be a success, with the events that the contract asks for. */
async function end(what: string, exec: Exec, transcript: Transcript, mode: "pipes" | "pty"): Promise<ExecResult> {
  const result = await exec.result();
  transcript.flush();
  if (result.code !== 0) throw executionFailure(what, result);
  const decoder = createCommandRuntimeProcessEventDecoder(mode);
  decoder.push(Buffer.from(result.events.map((event) => `${JSON.stringify(event)}\n`).join("")));
  decoder.finish();
  return result;
}

function executionFailure(what: string, { code, signal, stderr }: ExecResult) {
  return failureOf(what, { code, signal, stderr: stderr.toString("utf8") });
}

function sizeText({ rows, cols }: { rows: number; cols: number }): string {
  return `${rows} rows and ${cols} columns`;
}

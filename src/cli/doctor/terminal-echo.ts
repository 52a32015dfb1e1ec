import { Exec, type Installation } from "../consumer/index.ts";
import { failureOf, withinLimit } from "./wrapper-result.ts";

/** How often something is typed; the first time also pays for what is loaded on first use. */
const ECHOES = 5;
const END_OF_FILE = "\x04";

/** Types into a terminal and waits for its echo, as a person does. */
export async function echoTime(installation: Installation, workspaceId: string, env: Record<string, string>) {
  return await withinLimit("exec in a terminal", installation, async (limited) => {
    const exec = new Exec(limited, workspaceId, {
      argv: ["/bin/sh", "-c", "echo ready; exec cat"],
      env,
      purpose: { kind: "terminal" },
      stdio: { kind: "pty", rows: 24, cols: 80, term: "xterm-256color" },
    });
    try {
      await exec.outputContains("ready\r\n");
      const times: number[] = [];
      for (let number = 1; number <= ECHOES; number += 1) {
        const begunAt = performance.now();
        exec.stdin.write(`echo-${number}`);
        await exec.outputContains(`echo-${number}`);
        times.push(performance.now() - begunAt);
        exec.stdin.write("\n");
      }
      exec.stdin.write(END_OF_FILE);
      await exec.event(({ type }) => type === "exit");
      exec.control.end();
      const result = await exec.result();
      if (result.code !== 0) throw new Error(`it ended with ${result.code}`);
      return { found: { echo: `${median(times).toFixed(1)} ms, the median of ${ECHOES}` }, value: undefined };
    } catch {
      exec.control.end();
      const result = await exec.result();
      throw failureOf("exec in a terminal", { ...result, stderr: result.stderr.toString("utf8") });
    }
  });
}

function median(values: readonly number[]): number {
  return values.toSorted((left, right) => left - right)[Math.floor(values.length / 2)]!;
}

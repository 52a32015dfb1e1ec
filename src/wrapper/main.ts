import { RuntimeError } from "../wire/errors.ts";
import { type Invocation, parseInvocation } from "./arguments.ts";
import { exec } from "./exec/exec.ts";
import { loadLazily } from "./lazy.ts";
import { create } from "./operations/create.ts";
import { describe } from "./operations/describe.ts";
import { inspectOrResume, pauseOrDestroy, reconcile, signal } from "./operations/lifecycle.ts";
import { writeAll } from "./synchronous-io.ts";

/**
 * Entry of the wrapper: one operation of the contract, or one of the operator's commands. Standard output gets the
 * operation's answer and nothing else; a failure is one line on standard error and a status other than zero.
 */

async function perform(invocation: Exclude<Invocation, { operation: "exec" }>): Promise<string> {
  switch (invocation.operation) {
    case "describe":
      return describe();
    case "create":
      return await create(invocation.workspaceId);
    case "inspect":
    case "resume":
      return await inspectOrResume(invocation.operation, invocation.workspaceId);
    case "pause":
    case "destroy":
      return await pauseOrDestroy(invocation.operation, invocation.workspaceId);
    case "reconcile":
      return await reconcile();
    case "signal":
      return await signal(invocation.workspaceId, invocation.execId, invocation.signal);
  }
}

async function main(args: readonly string[]): Promise<void> {
  try {
    const invocation = parseInvocation(args);
    if (invocation === undefined) {
      await loadLazily("cli").runCommand(args);
    } else if (invocation.operation === "exec") {
      await exec(invocation.workspaceId);
    } else {
      writeAll(1, await perform(invocation));
      process.exit(0);
    }
  } catch (error) {
    writeAll(2, `${RuntimeError.from(error).toLine()}\n`);
    process.exit(1);
  }
}

void main(process.argv.slice(2));

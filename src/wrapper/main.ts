import { RuntimeError } from "../wire/errors.ts";
import { type Invocation, parseInvocation } from "./arguments.ts";
import { loadBundle } from "./bundles.ts";
import { DESCRIBE_LINE } from "./operations/describe.ts";
import { writeAll } from "./synchronous-io.ts";

/**
 * Entry of the wrapper: one operation of the contract, or one of the operator's commands. Standard output gets the
 * operation's answer and nothing else; a failure is one line on standard error and a status other than zero.
 */

async function perform(invocation: Exclude<Invocation, { operation: "exec" }>): Promise<string> {
  switch (invocation.operation) {
    case "describe":
      return DESCRIBE_LINE;
    case "create":
      return await loadBundle("create").create(invocation.workspaceId);
    default:
      return await loadBundle("lifecycle").performLifecycle(invocation);
  }
}

async function main(args: readonly string[]): Promise<void> {
  try {
    const invocation = parseInvocation(args);
    if (invocation === undefined) {
      await loadBundle("cli").runCommand(args);
    } else if (invocation.operation === "exec") {
      await loadBundle("exec").exec(invocation.workspaceId);
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

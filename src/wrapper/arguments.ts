import { RuntimeError } from "../wire/errors.ts";

/** The command line of the contract's operations. */

export type Invocation =
  | { operation: "describe" }
  | { operation: "reconcile" }
  | { operation: "exec"; workspaceId: string }
  | { operation: "create"; workspaceId: string }
  | { operation: "inspect" | "resume"; workspaceId: string }
  | { operation: "pause" | "destroy"; workspaceId: string }
  | { operation: "signal"; workspaceId: string; execId: string; signal: string };

/** Flags of each operation, in no particular order on the command line; all of them are required. */
const FLAGS: Record<Invocation["operation"], readonly string[]> = {
  describe: [],
  reconcile: [],
  create: ["--workspace-id"],
  inspect: ["--workspace-id"],
  exec: ["--workspace-id"],
  pause: ["--workspace-id"],
  resume: ["--workspace-id"],
  destroy: ["--workspace-id"],
  signal: ["--workspace-id", "--exec-id", "--signal"],
};

/**
 * Finds the operation at the end of the command line: the consumer may put configured arguments before it, which are
 * not ours and are not looked at. The longest end that is a whole invocation counts, since a value may be spelled like
 * an operation (`inspect --workspace-id reconcile`). What stands behind `--` is a command to be run, not an operation.
 * @param args without node and the script
 * @returns undefined when no operation of the contract is named
 * @throws RuntimeError usage when an operation's flags are incomplete or unknown
 */
export function parseInvocation(args: readonly string[]): Invocation | undefined {
  let problem: RuntimeError | undefined;
  for (const [at, word] of args.entries()) {
    if (word === "--") break;
    if (!Object.hasOwn(FLAGS, word)) continue;
    try {
      return toInvocation(word as Invocation["operation"], args.slice(at + 1));
    } catch (error) {
      problem ??= error as RuntimeError;
    }
  }
  if (problem !== undefined) throw problem;
  return undefined;
}

function toInvocation(operation: Invocation["operation"], rest: readonly string[]): Invocation {
  const values = new Map<string, string>();
  for (let at = 0; at < rest.length; at += 2) {
    const flag = rest[at]!;
    const value = rest[at + 1];
    if (!FLAGS[operation].includes(flag)) throw usage(operation, `does not take ${JSON.stringify(flag)}`);
    if (value === undefined || value === "") throw usage(operation, `needs a value for ${flag}`);
    if (values.has(flag)) throw usage(operation, `has ${flag} twice`);
    values.set(flag, value);
  }
  for (const flag of FLAGS[operation]) {
    if (!values.has(flag)) throw usage(operation, `needs ${flag}`);
  }
  const workspaceId = values.get("--workspace-id")!;
  switch (operation) {
    case "describe":
    case "reconcile":
      return { operation };
    case "signal":
      return { operation, workspaceId, execId: values.get("--exec-id")!, signal: values.get("--signal")! };
    default:
      return { operation, workspaceId };
  }
}

function usage(operation: string, problem: string): RuntimeError {
  const flags = FLAGS[operation as Invocation["operation"]].map((flag) => ` ${flag} …`).join("");
  return new RuntimeError(
    "usage",
    `The operation ${operation} ${problem}`,
    `Call it as: paseo-ssh-runtime ${operation}${flags}`,
  );
}

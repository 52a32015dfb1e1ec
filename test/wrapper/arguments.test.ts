import { describe, expect, it } from "vitest";
import { type Invocation, parseInvocation } from "../../src/wrapper/arguments.ts";

const SIGNAL = ["--workspace-id", "w", "--exec-id", "e", "--signal", "SIGTERM"];
const words = (line: string) => line.split(" ").filter((word) => word !== "");

describe("the command line", () => {
  it.each<[string, Invocation]>([
    ["describe", { operation: "describe" }],
    ["reconcile", { operation: "reconcile" }],
    ["create --workspace-id X", { operation: "create", workspaceId: "X" }],
    ["inspect --workspace-id X", { operation: "inspect", workspaceId: "X" }],
    ["exec --workspace-id X", { operation: "exec", workspaceId: "X" }],
    ["pause --workspace-id X", { operation: "pause", workspaceId: "X" }],
    ["resume --workspace-id X", { operation: "resume", workspaceId: "X" }],
    ["destroy --workspace-id X", { operation: "destroy", workspaceId: "X" }],
    [
      "signal --signal 9 --exec-id E --workspace-id X",
      { operation: "signal", workspaceId: "X", execId: "E", signal: "9" },
    ],
    // Configured arguments before the operation.
    ["--profile fast create --workspace-id X", { operation: "create", workspaceId: "X" }],
    ["--profile create create --workspace-id X", { operation: "create", workspaceId: "X" }],
    ["--profile describe exec --workspace-id X", { operation: "exec", workspaceId: "X" }],
    ["exec --workspace-id A inspect --workspace-id X", { operation: "inspect", workspaceId: "X" }],
    ["describe describe", { operation: "describe" }],
    ["-v status describe", { operation: "describe" }],
    // Values that are spelled like operations, flags or ends of options.
    ["inspect --workspace-id describe", { operation: "inspect", workspaceId: "describe" }],
    ["destroy --workspace-id reconcile", { operation: "destroy", workspaceId: "reconcile" }],
    ["create --workspace-id create", { operation: "create", workspaceId: "create" }],
    ["create --workspace-id --workspace-id", { operation: "create", workspaceId: "--workspace-id" }],
    ["create --workspace-id --", { operation: "create", workspaceId: "--" }],
    [
      "signal --workspace-id describe --exec-id signal --signal reconcile",
      { operation: "signal", workspaceId: "describe", execId: "signal", signal: "reconcile" },
    ],
    ["pause --workspace-id toString", { operation: "pause", workspaceId: "toString" }],
  ])("%s", (line, invocation) => {
    expect(parseInvocation(words(line))).toEqual(invocation);
  });

  it("takes values as they are", () => {
    for (const workspaceId of ["a b", "ä", "$HOME", "a\nb", "-"]) {
      expect(parseInvocation(["inspect", "--workspace-id", workspaceId])).toEqual({
        operation: "inspect",
        workspaceId,
      });
    }
  });

  it.each<[string]>([
    [""],
    ["status"],
    ["status --json"],
    ["broker stop"],
    ["--help"],
    ["toString"],
    ["hasOwnProperty --workspace-id X"],
    ["Create --workspace-id X"],
    ["run devbox -- git describe"],
    ["run devbox -- exec --workspace-id X"],
    ["up devbox --"],
  ])("no operation: %s", (line) => {
    expect(parseInvocation(words(line))).toBeUndefined();
  });

  it.each<[string[], RegExp]>([
    [["create"], /^The operation create needs --workspace-id$/],
    [["create", "--workspace-id"], /needs a value for --workspace-id/],
    [["create", "--workspace-id", ""], /needs a value for --workspace-id/],
    [["create", "X"], /does not take "X"/],
    [["create", "--workspace-id", "X", "--force"], /does not take "--force"/],
    [["create", "--workspace-id=X"], /does not take "--workspace-id=X"/],
    [["create", "--workspace-id", "X", "--workspace-id", "X"], /has --workspace-id twice/],
    [["create", "--workspace-id", "X", "--exec-id", "E"], /does not take "--exec-id"/],
    [["describe", "--json"], /does not take "--json"/],
    [["reconcile", "--workspace-id", "X"], /does not take "--workspace-id"/],
    [["signal", ...SIGNAL.slice(2)], /signal needs --workspace-id/],
    [["signal", ...SIGNAL.slice(0, 4)], /signal needs --signal/],
    [["signal", ...SIGNAL, "--signal", "SIGKILL"], /has --signal twice/],
    [["exec", "--workspace-id", "X", "--", "ls"], /does not take "--"/],
    // The first one that is named, since that is what somebody wanted.
    [["signal", "--workspace-id", "create"], /The operation signal needs --exec-id/],
  ])("wrong: %j", (args, message) => {
    expect(() => parseInvocation(args)).toThrow(
      expect.objectContaining({
        code: "usage",
        message: expect.stringMatching(message),
        remedy: expect.stringMatching(new RegExp(`^Call it as: paseo-ssh-runtime ${args[0]}`)),
      }),
    );
  });
});

import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, it } from "vitest";
import { ControlGroups } from "../../remote-agent/control-groups.ts";

it("prepares a group for the next execution also while empty groups are being removed", {
  timeout: 60_000,
}, async () => {
  const groups = ControlGroups.detect(`test-${process.pid}`);
  // Where an account may not make groups there are none to lose, and executions start without them.
  if (groups === undefined) return;
  const busy = setInterval(() => groups.prune(), 0);
  try {
    for (let count = 0; count < 100; count += 1) {
      const child = await groups.start("workspace", () => spawn("true", { stdio: "ignore" }));
      expect(await once(child, "exit")).toEqual([0, null]);
    }
  } finally {
    clearInterval(busy);
    await groups.outside(async () => {});
    groups.close();
  }
});

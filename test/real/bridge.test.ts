import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { BuildHost, outputOf } from "../support/build-host.ts";
import { describeReal } from "../support/requirements.ts";
import type { RuntimeClient } from "../support/runtime.ts";
import { describeBytes, PATH } from "../support/side-by-side.ts";

const MEBIBYTE = 1024 * 1024;

const FORBIDDING = ["AllowTcpForwarding no", "AllowStreamLocalForwarding no", "DisableForwarding yes"];

describeReal("a server that forwards no streams", () => {
  describe.each(FORBIDDING.flatMap((line) => [[line], [line, "MaxSessions 1"]]))("because of %s %s", (...config) => {
    let host: BuildHost;
    let client: RuntimeClient;
    beforeAll(async () => {
      host = await BuildHost.start({ config: config.filter((line) => line !== undefined) });
      client = host.client();
    });
    afterAll(() => host?.stop());

    it("carries a workspace from a local folder, and 50 MB each way", async () => {
      const source = host.emptyFolder();
      writeFileSync(join(source, "file"), "content");
      await client.create("w", { kind: "directory", path: source });
      expect(await outputOf(client, "w", ["cat", "file"])).toBe("content");
      const input = randomBytes(50 * MEBIBYTE);
      const { stdout } = await client.execute("w", ["cat"], { input, env: { PATH } });
      expect(describeBytes(stdout)).toBe(describeBytes(input));
    });
  });
});

import { spawnSync } from "node:child_process";
import { readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { publicSocketPath } from "../../src/wire/rendezvous.ts";
import { bundleProgram } from "../support/bundle.ts";
import { scratchFolder } from "../support/scratch-folder.ts";
import { Claimant, whoAnswers } from "./claimants.ts";

const CLAIMANTS = 8;
const ROUNDS = Number(process.env.ROUNDS ?? 10);

const program = bundleProgram("test/fixtures/claimant.ts");

/** What a crash may have left under a name: nothing, a link, a link with its socket, a link to a pid that lives again. */
const LEFTOVERS: Record<string, (folder: string, name: string) => void> = {
  nothing: () => {},
  "a link to a dead process": (folder, name) =>
    symlinkSync(`${name}.${deadPid()}.sock`, publicSocketPath(folder, name)),
  "a link and a socket of a dead process": (folder, name) => {
    const own = `${name}.${deadPid()}.sock`;
    writeFileSync(join(folder, own), "");
    symlinkSync(own, publicSocketPath(folder, name));
  },
  "a link to a pid that another program has now": (folder, name) => {
    const own = `${name}.${process.pid}.sock`;
    writeFileSync(join(folder, own), "");
    symlinkSync(own, publicSocketPath(folder, name));
  },
};

function deadPid(): number {
  return spawnSync("/bin/true").pid;
}

describe("processes that claim a name at the same time", () => {
  it.each(Object.keys(LEFTOVERS))("one holds it, the others give way, after %s", async (kind) => {
    const folder = scratchFolder();
    const all = Array.from({ length: CLAIMANTS }, () => new Claimant(program, folder));
    await Promise.all(all.map((claimant) => claimant.obey("held nothing")));
    for (let round = 0; round < ROUNDS; round += 1) {
      const name = `name-${round}`;
      LEFTOVERS[kind]!(folder, name);
      const at = Date.now() + 10;
      const results = await Promise.all(all.map((claimant) => claimant.obey(`claim ${name} ${at}`)));
      expect(results.filter((result) => result.error !== undefined)).toEqual([]);
      const holders = all.filter((_, index) => results[index]!.claimed);
      expect(holders).toHaveLength(1);
      expect(await whoAnswers(publicSocketPath(folder, name))).toBe(holders[0]!.pid);
      expect(await holders[0]!.obey(`held ${name}`)).toEqual({ held: true });
      await holders[0]!.obey(`release ${name}`);
    }
    const strangers = kind.endsWith("has now") ? [`.${process.pid}.sock`] : [];
    expect(readdirSync(folder).filter((entry) => !strangers.some((end) => entry.endsWith(end)))).toEqual([]);
  });
});

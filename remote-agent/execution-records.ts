import { createHash } from "node:crypto";
import { appendFileSync, mkdirSync, readdirSync, readFileSync, unlinkSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod/mini";
import { isMissing, readJson, writeJsonAtomically } from "./store.ts";

/**
 * What is on disk about the executions of one workspace: a file per live one, so that a restarted agent can end what
 * its predecessor left, and the identities of all that have ended, since an identity is never used twice.
 * None of it is synced to the disk: a power failure ends the processes too.
 */

const LiveRecordSchema = z.strictObject({
  execId: z.string(),
  pid: z.int(),
  startTime: z.string(),
  /** The agent that has it, and where that agent listens. */
  agentPid: z.int(),
  agentStartTime: z.string(),
  agentSocket: z.string(),
  /** Where the process ids mean something. */
  host: z.string(),
  /** Folder of its control group, where there are any. */
  controlGroup: z.optional(z.string()),
});
export type LiveRecord = z.infer<typeof LiveRecordSchema>;

export type Outcome = "exited" | "lost";

export class ExecutionRecords {
  readonly #liveFolder: string;
  readonly #endedFolder: string;

  /** @param workspaceFolder the folder that holds workspace.json */
  constructor(workspaceFolder: string) {
    this.#liveFolder = join(workspaceFolder, "executions", "live");
    this.#endedFolder = join(workspaceFolder, "executions", "ended");
  }

  writeLive(record: LiveRecord): void {
    writeJsonAtomically(this.#livePath(record.execId), record, { durable: false });
  }

  readLive(execId: string): LiveRecord | undefined {
    try {
      return readJson(this.#livePath(execId), LiveRecordSchema);
    } catch {
      return undefined;
    }
  }

  listLive(): LiveRecord[] {
    let names: string[];
    try {
      names = readdirSync(this.#liveFolder);
    } catch (error) {
      if (isMissing(error)) return [];
      throw error;
    }
    return names.flatMap((name) => {
      if (!name.endsWith(".json")) return [];
      try {
        return readJson(join(this.#liveFolder, name), LiveRecordSchema) ?? [];
      } catch {
        return [];
      }
    });
  }

  /** Remembers for good that this identity was used, then forgets the live record. */
  markEnded(execId: string, outcome: Outcome): void {
    try {
      mkdirSync(this.#endedFolder, { mode: 0o700 });
    } catch (error) {
      // The workspace was destroyed meanwhile, and making its folder anew would leave a broken one behind.
      if (isMissing(error)) return;
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
    appendFileSync(this.#bucketPath(execId), `${JSON.stringify([execId, outcome])}\n`, { mode: 0o600 });
    try {
      unlinkSync(this.#livePath(execId));
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
  }

  /** @returns undefined when this identity was never used here or is live */
  endedOutcome(execId: string): Outcome | undefined {
    let text: string;
    try {
      text = readFileSync(this.#bucketPath(execId), "utf8");
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
    const key = JSON.stringify(execId);
    // A line cut by a crash belongs to an execution whose live record is still there.
    for (const outcome of ["exited", "lost"] as const) {
      if (text.includes(`[${key},"${outcome}"]\n`)) return outcome;
    }
    return undefined;
  }

  #livePath(execId: string): string {
    return join(this.#liveFolder, `${digest(execId)}.json`);
  }

  /** Ended identities are spread over 256 files, so that a lookup reads little after years of use. */
  #bucketPath(execId: string): string {
    return join(this.#endedFolder, digest(execId).slice(0, 2));
  }
}

function digest(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 32);
}

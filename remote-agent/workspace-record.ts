import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod/mini";
import { RuntimeError } from "../src/wire/errors.ts";
import type { Layout } from "./layout.ts";
import { BaselineSchema } from "./materialize/index.ts";
import { isMissing, readJson, writeJsonAtomically } from "./store.ts";

/** What must be known of a workspace after a crash or reboot: `workspace.json` beside its content. No secrets in it. */

export const WorkspaceRecordSchema = z.strictObject({
  version: z.literal(1),
  workspaceId: z.string(),
  runtimeInstanceId: z.string(),
  lifecycle: z.enum(["ready", "paused"]),
  createdAt: z.string(),
  /** The wrapper that created it: when its answer was lost and it asks again, the workspace is still a fresh one. */
  createdBySession: z.string(),
  /** Where the content came from, for people who look at this file. */
  source: z.string(),
  /** Workspace root below the content folder; empty for the content folder itself. */
  root: z.string(),
  branch: z.optional(z.string()),
  baseline: BaselineSchema,
});
export type WorkspaceRecord = z.infer<typeof WorkspaceRecordSchema>;

const RECORD_FILE = "workspace.json";

export function contentFolder(workspaceFolder: string): string {
  return join(workspaceFolder, "content");
}

export function writeRecord(workspaceFolder: string, record: WorkspaceRecord): void {
  writeJsonAtomically(join(workspaceFolder, RECORD_FILE), record, { durable: true });
}

/**
 * @returns undefined when there is no such workspace
 * @throws RuntimeError workspace-broken when there is a folder that cannot be understood
 */
export function readRecord(layout: Layout, workspaceId: string): WorkspaceRecord | undefined {
  const folder = layout.workspace(workspaceId);
  let record: WorkspaceRecord | undefined;
  try {
    record = readJson(join(folder, RECORD_FILE), WorkspaceRecordSchema);
  } catch (error) {
    throw broken(folder, `its ${RECORD_FILE} cannot be read: ${(error as Error).message}`);
  }
  if (record === undefined && existsSync(folder)) throw broken(folder, `it has no ${RECORD_FILE}`);
  if (record !== undefined && record.workspaceId !== workspaceId)
    throw broken(folder, "it belongs to another workspace id");
  return record;
}

/** All workspaces that can be read. */
export function listRecords(layout: Layout): { folder: string; record: WorkspaceRecord }[] {
  let names: string[];
  try {
    names = readdirSync(layout.workspaces);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
  return names.flatMap((name) => {
    if (name.startsWith(".")) return [];
    const folder = join(layout.workspaces, name);
    try {
      const record = readJson(join(folder, RECORD_FILE), WorkspaceRecordSchema);
      return record === undefined ? [] : [{ folder, record }];
    } catch {
      return [];
    }
  });
}

function broken(folder: string, reason: string): RuntimeError {
  return new RuntimeError(
    "workspace-broken",
    `The workspace folder ${folder} is damaged (${reason})`,
    "Save what you need from it, then move it away",
  );
}

export function missing(workspaceId: string): RuntimeError {
  return new RuntimeError(
    "workspace-missing",
    `There is no workspace ${JSON.stringify(workspaceId)} on the build host`,
    "Create it first",
  );
}

/** @throws RuntimeError workspace-owned-elsewhere */
export function requireOwner(record: WorkspaceRecord, runtimeInstanceId: string): void {
  if (record.runtimeInstanceId === runtimeInstanceId) return;
  throw new RuntimeError(
    "workspace-owned-elsewhere",
    `The workspace ${JSON.stringify(record.workspaceId)} belongs to another Paseo installation`,
    "Use the installation that created it, or another workspace id",
  );
}

import { existsSync, mkdirSync, readdirSync, realpathSync, renameSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Readable } from "node:stream";
import type {
  CommandRuntimeInspection,
  CommandRuntimeLifecycleResponse,
  CommandRuntimeState,
} from "../src/contract/index.ts";
import { RuntimeError } from "../src/wire/errors.ts";
import type { CreateRequest, EnvironmentOptions, HelperIdentity } from "../src/wire/from-client.ts";
import type { SourceManifest } from "../src/wire/source.ts";
import type { SourceHave } from "../src/wire/source-have.ts";
import { type AccountEnvironment, workloadPath } from "./account.ts";
import type { ExecutionPlace, Executions } from "./executions.ts";
import { sweepLostExecutions } from "./executions.ts";
import type { HelperStore } from "./helper.ts";
import type { Layout } from "./layout.ts";
import { hasUnsavedWork, materialize, removeTree, withoutCredentials } from "./materialize/index.ts";
import { Mutexes } from "./mutexes.ts";
import { syncFolder } from "./store.ts";
import { moveToTrash } from "./trash.ts";
import { isUnfinished, removeAbandoned, unfinishedName } from "./unfinished.ts";
import {
  contentFolder,
  listRecords,
  missing,
  readRecord,
  requireOwner,
  type WorkspaceRecord,
  writeRecord,
} from "./workspace-record.ts";

/** What shapes the environment of a workspace in one request. */
export interface Shape {
  environment: EnvironmentOptions;
  helper?: HelperIdentity | undefined;
}

/** The client's side of a create. */
export interface CreateContext {
  supply(have: SourceHave): Promise<{ manifest: SourceManifest; stream: Readable }>;
  progress(text: string): void;
  /** Aborted when the client goes away. */
  signal: AbortSignal;
}

/** The workspaces of this account and root: the contract's operations on them, one at a time for each workspace. */
export class Workspaces {
  readonly #layout: Layout;
  readonly #account: Promise<AccountEnvironment>;
  readonly #helpers: HelperStore;
  readonly #executions: Executions;
  readonly #authLink: string;
  readonly #mutexes = new Mutexes();

  /** @param authLink leads to the forwarded ssh agent of whoever connected last, if anybody forwards one */
  constructor(
    layout: Layout,
    account: Promise<AccountEnvironment>,
    helpers: HelperStore,
    executions: Executions,
    authLink: string,
  ) {
    this.#layout = layout;
    this.#account = account;
    this.#helpers = helpers;
    this.#executions = executions;
    this.#authLink = authLink;
  }

  /** Removes what a predecessor left half-made, and ends what it left running. */
  async recover(): Promise<void> {
    mkdirSync(this.#layout.workspaces, { recursive: true, mode: 0o700 });
    await removeAbandoned(this.#layout.workspaces);
    for (const name of readdirSync(this.#layout.workspaces)) {
      if (!isUnfinished(name)) await sweepLostExecutions(join(this.#layout.workspaces, name));
    }
  }

  async create(request: CreateRequest, context: CreateContext): Promise<CommandRuntimeLifecycleResponse> {
    return await this.#mutexes.run(request.workspaceId, async () => {
      context.signal.throwIfAborted();
      const existing = readRecord(this.#layout, request.workspaceId);
      if (existing !== undefined) {
        requireOwner(existing, request.runtimeInstanceId);
        this.#requireContent(existing);
        return await this.#stateResponse(existing, request, existing.createdBySession === request.session);
      }
      const record = await this.#materialize(request, context);
      return await this.#stateResponse(record, request, true);
    });
  }

  async #materialize(request: CreateRequest, context: CreateContext): Promise<WorkspaceRecord> {
    const { workspaces, gitCache } = this.#layout;
    mkdirSync(gitCache, { recursive: true, mode: 0o700 });
    const unfinished = join(workspaces, unfinishedName());
    mkdirSync(unfinished, { mode: 0o700 });
    try {
      const { source } = request;
      const result = await this.#executions.outside(() =>
        materialize({
          contentPath: contentFolder(unfinished),
          cacheRoot: gitCache,
          source: source.kind === "git" ? source : { kind: "directory", key: source.key },
          supply: context.supply,
          placement: request.placement,
          workspaceId: request.workspaceId,
          markFirstAgentBranchAutoName: request.markFirstAgentBranchAutoName,
          paseoConfig: request.paseoConfig,
          progress: context.progress,
          signal: context.signal,
        }),
      );
      const record: WorkspaceRecord = {
        version: 1,
        workspaceId: request.workspaceId,
        runtimeInstanceId: request.runtimeInstanceId,
        lifecycle: "ready",
        createdAt: new Date().toISOString(),
        createdBySession: request.session,
        source: source.kind === "git" ? withoutCredentials(source.url) : source.label,
        root: result.root,
        ...(result.branch === undefined ? {} : { branch: result.branch }),
        baseline: result.baseline,
      };
      writeRecord(unfinished, record);
      context.signal.throwIfAborted();
      renameSync(unfinished, this.#layout.workspace(request.workspaceId));
      syncFolder(workspaces);
      return record;
    } catch (error) {
      rmSync(unfinished, { recursive: true, force: true });
      throw error;
    }
  }

  async inspect(
    workspaceId: string,
    runtimeInstanceId: string,
    shape: Shape,
  ): Promise<CommandRuntimeLifecycleResponse> {
    return {
      type: "inspection",
      protocolVersion: 1,
      inspection: await this.#inspection(workspaceId, runtimeInstanceId, shape),
    };
  }

  async #inspection(workspaceId: string, runtimeInstanceId: string, shape: Shape): Promise<CommandRuntimeInspection> {
    let record: WorkspaceRecord | undefined;
    try {
      record = readRecord(this.#layout, workspaceId);
      if (record === undefined) return { status: "missing" };
      requireOwner(record, runtimeInstanceId);
      this.#requireContent(record);
    } catch (error) {
      if (!(error instanceof RuntimeError) || error.code !== "workspace-broken") throw error;
      return { status: "error", message: error.toLine() };
    }
    return {
      status: record.lifecycle,
      state: await this.#state(record, shape),
      placement: { cwd: this.#root(record) },
    };
  }

  async pause(workspaceId: string, runtimeInstanceId: string): Promise<void> {
    await this.#mutexes.run(workspaceId, async () => {
      const record = this.#requireOwned(workspaceId, runtimeInstanceId);
      if (record.lifecycle !== "paused") writeRecord(this.#folder(record), { ...record, lifecycle: "paused" });
      await this.#executions.endAll(workspaceId, this.#folder(record));
    });
  }

  async resume(workspaceId: string, runtimeInstanceId: string, shape: Shape): Promise<CommandRuntimeLifecycleResponse> {
    return await this.#mutexes.run(workspaceId, async () => {
      const record = this.#requireOwned(workspaceId, runtimeInstanceId);
      this.#requireContent(record);
      const ready: WorkspaceRecord = { ...record, lifecycle: "ready" };
      if (record.lifecycle !== "ready") writeRecord(this.#folder(record), ready);
      return await this.#stateResponse(ready, shape, undefined);
    });
  }

  async destroy(workspaceId: string, runtimeInstanceId: string): Promise<void> {
    await this.#mutexes.run(workspaceId, async () => {
      const record = readRecord(this.#layout, workspaceId);
      if (record === undefined) return;
      requireOwner(record, runtimeInstanceId);
      const content = contentFolder(this.#folder(record));
      await this.#remove(record, await this.#executions.outside(() => hasUnsavedWork(content, record.baseline)));
    });
  }

  /**
   * Removes this installation's workspaces that it no longer knows; nothing is removed when one that it does know
   * belongs to another installation.
   */
  async reconcile(workspaceIds: readonly string[], runtimeInstanceId: string): Promise<void> {
    const known = new Set(workspaceIds);
    const records = listRecords(this.#layout).map(({ record }) => record);
    for (const record of records) {
      if (known.has(record.workspaceId)) requireOwner(record, runtimeInstanceId);
    }
    for (const { workspaceId } of records.filter((record) => record.runtimeInstanceId === runtimeInstanceId)) {
      if (known.has(workspaceId)) continue;
      await this.#mutexes.run(workspaceId, async () => {
        const record = readRecord(this.#layout, workspaceId);
        if (record?.runtimeInstanceId === runtimeInstanceId) await this.#remove(record, true);
      });
    }
  }

  /**
   * The place of a workspace in which something may be executed.
   * @throws RuntimeError workspace-missing, workspace-paused, workspace-owned-elsewhere, workspace-broken
   */
  async requireReady(workspaceId: string, runtimeInstanceId: string, shape: Shape): Promise<ExecutionPlace> {
    const account = await this.#account;
    const record = this.#requireOwned(workspaceId, runtimeInstanceId);
    if (record.lifecycle === "paused") {
      throw new RuntimeError(
        "workspace-paused",
        `The workspace ${JSON.stringify(workspaceId)} is paused`,
        "Resume it first",
      );
    }
    this.#requireContent(record);
    return {
      workspaceFolder: this.#folder(record),
      root: this.#root(record),
      workloadPath: this.#path(account, shape),
    };
  }

  /** Where a workspace with this id is, if there is one. */
  folder(workspaceId: string): string {
    return this.#layout.workspace(workspaceId);
  }

  /**
   * @returns the workspace's folder
   * @throws RuntimeError workspace-missing, workspace-owned-elsewhere
   */
  ownedFolder(workspaceId: string, runtimeInstanceId: string): string {
    return this.#folder(this.#requireOwned(workspaceId, runtimeInstanceId));
  }

  count(): number {
    return listRecords(this.#layout).length;
  }

  /** Ends what runs in a workspace and takes it away in one step; `keep` moves it to the trash for a while. */
  async #remove(record: WorkspaceRecord, keep: boolean): Promise<void> {
    // No new execution may begin while the old ones are being ended.
    writeRecord(this.#folder(record), { ...record, lifecycle: "paused" });
    await this.#executions.endAll(record.workspaceId, this.#folder(record));
    const trashed = moveToTrash(this.#layout, this.#folder(record));
    if (!keep) await removeTree(trashed);
  }

  #requireOwned(workspaceId: string, runtimeInstanceId: string): WorkspaceRecord {
    const record = readRecord(this.#layout, workspaceId);
    if (record === undefined) throw missing(workspaceId);
    requireOwner(record, runtimeInstanceId);
    return record;
  }

  #requireContent(record: WorkspaceRecord): void {
    const root = join(contentFolder(this.#folder(record)), record.root);
    if (existsSync(root) && statSync(root).isDirectory()) return;
    throw new RuntimeError(
      "workspace-broken",
      `The content of the workspace ${JSON.stringify(record.workspaceId)} is gone (${root} is not a folder)`,
      "Destroy the workspace and create it again",
    );
  }

  async #stateResponse(
    record: WorkspaceRecord,
    shape: Shape,
    fresh: boolean | undefined,
  ): Promise<CommandRuntimeLifecycleResponse> {
    return {
      type: "state",
      protocolVersion: 1,
      state: await this.#state(record, shape),
      placement: { cwd: this.#root(record) },
      ...(fresh === undefined ? {} : { materializedFreshContent: fresh }),
    };
  }

  async #state(record: WorkspaceRecord, shape: Shape): Promise<CommandRuntimeState> {
    const account = await this.#account;
    return {
      workspaceId: record.workspaceId,
      lifecycle: record.lifecycle,
      lifecycleEnvironment: {
        ...account,
        PASEO_SOURCE_CHECKOUT_PATH: ".",
        PASEO_ROOT_PATH: ".",
        PASEO_WORKTREE_PATH: ".",
        ...(record.branch === undefined ? {} : { PASEO_BRANCH_NAME: record.branch }),
        ...(shape.environment.forwardAgent === true && existsSync(this.#authLink)
          ? { SSH_AUTH_SOCK: this.#authLink }
          : {}),
        ...shape.environment.env,
        PATH: this.#path(account, shape),
      },
    };
  }

  #path(account: AccountEnvironment, shape: Shape): string {
    const base = shape.environment.env.PATH === undefined ? account : { ...account, PATH: shape.environment.env.PATH };
    return workloadPath(
      base,
      shape.helper === undefined ? undefined : this.#helpers.folder(shape.helper),
      shape.environment.path,
    );
  }

  #folder(record: WorkspaceRecord): string {
    return this.folder(record.workspaceId);
  }

  /** Absolute, with symbolic links resolved, as a process there sees it. */
  #root(record: WorkspaceRecord): string {
    return realpathSync(join(contentFolder(this.#folder(record)), record.root));
  }
}

import { isJson, isPlainObject, MAX_JSON_DEPTH } from "./json-values.ts";
import type {
  CommandRuntimeInspection,
  CommandRuntimeLifecycleRequest,
  CommandRuntimeLifecycleResponse,
} from "./lifecycle.ts";
import type { CommandRuntimeControl, CommandRuntimeProcessPurpose } from "./process.ts";

/**
 * Quick acceptance of the messages that every warm operation meets. Each function says yes only to what the schema of
 * the same name accepts; to anything else it says "ask the schema", which then explains what is wrong or accepts it
 * after all. Loading and building the schemas costs a wrapper 15 ms of the 12 that it has over a bare node.
 * test/contract/accept.test.ts holds these functions against the schemas.
 */

const VERSION = 1;
const PURPOSES: readonly string[] = [
  "agent",
  "terminal",
  "git",
  "discovery",
  "workspace-helper",
  "workspace-script",
  "setup",
  "archive",
] satisfies CommandRuntimeProcessPurpose["kind"][];

/** Requests of all operations but create, whose input only the schema can judge. */
export function acceptsLifecycleRequest(value: unknown): value is CommandRuntimeLifecycleRequest {
  return (
    hasOnly(value, ["protocolVersion", "runtimeInstanceId", "options", "workspaceIds"]) &&
    value.protocolVersion === VERSION &&
    isNonEmpty(value.runtimeInstanceId) &&
    isOptions(value.options) &&
    (value.workspaceIds === undefined || isTexts(value.workspaceIds))
  );
}

export function acceptsControl(value: unknown): value is CommandRuntimeControl {
  if (!isPlainObject(value) || value.protocolVersion !== VERSION) return false;
  switch (value.type) {
    case "spawn":
      return acceptsSpawn(value);
    case "resize":
      return (
        hasOnly(value, ["type", "protocolVersion", "id", "rows", "cols"]) &&
        isWhole(value.id, 0) &&
        isWhole(value.rows, 1) &&
        isWhole(value.cols, 1)
      );
    case "signal":
      return hasOnly(value, ["type", "protocolVersion", "signal"]) && typeof value.signal === "string";
    default:
      return false;
  }
}

function acceptsSpawn(value: Record<string, unknown>): boolean {
  const { argv, cwd, purpose, execId } = value;
  return (
    hasOnly(value, [
      "type",
      "protocolVersion",
      "runtimeInstanceId",
      "argv",
      "cwd",
      "env",
      "purpose",
      "options",
      "execId",
      "stdio",
    ]) &&
    isNonEmpty(value.runtimeInstanceId) &&
    isTexts(argv) &&
    argv.length > 0 &&
    isOptionalText(cwd) &&
    isEnvironment(value.env) &&
    hasOnly(purpose, ["kind"]) &&
    PURPOSES.includes(purpose.kind as string) &&
    isOptions(value.options) &&
    isNonEmpty(execId) &&
    isStdio(value.stdio)
  );
}

function isStdio(value: unknown): boolean {
  if (hasOnly(value, ["kind"])) return value.kind === "pipes";
  return (
    hasOnly(value, ["kind", "rows", "cols", "term"]) &&
    value.kind === "pty" &&
    isWhole(value.rows, 1) &&
    isWhole(value.cols, 1) &&
    isOptionalText(value.term)
  );
}

/** @returns the message with its keys in the order of the contract, or undefined to ask the schema */
export function orderedLifecycleResponse(value: unknown): CommandRuntimeLifecycleResponse | undefined {
  if (!isPlainObject(value) || value.protocolVersion !== VERSION) return undefined;
  const { type } = value;
  switch (type) {
    case "ok":
      return hasOnly(value, ["type", "protocolVersion"]) ? { type, protocolVersion: VERSION } : undefined;
    case "inspection": {
      if (!hasOnly(value, ["type", "protocolVersion", "inspection"])) return undefined;
      const inspection = orderedInspection(value.inspection);
      return inspection === undefined ? undefined : { type, protocolVersion: VERSION, inspection };
    }
    case "state": {
      if (!hasOnly(value, ["type", "protocolVersion", "state", "placement", "materializedFreshContent"]))
        return undefined;
      const { materializedFreshContent: fresh } = value;
      const place = orderedPlace(value);
      if (place === undefined || (fresh !== undefined && typeof fresh !== "boolean")) return undefined;
      return {
        type,
        protocolVersion: VERSION,
        ...place,
        ...(fresh === undefined ? {} : { materializedFreshContent: fresh }),
      };
    }
    default:
      return undefined;
  }
}

function orderedInspection(value: unknown): CommandRuntimeInspection | undefined {
  if (hasOnly(value, ["status"])) return value.status === "missing" ? { status: value.status } : undefined;
  if (!hasOnly(value, ["status", "state", "placement"])) return undefined;
  if (value.status !== "ready" && value.status !== "paused") return undefined;
  const place = orderedPlace(value);
  return place === undefined ? undefined : { status: value.status, ...place };
}

type Place = Pick<Extract<CommandRuntimeLifecycleResponse, { type: "state" }>, "state" | "placement">;

function orderedPlace({ state, placement }: Record<string, unknown>): Place | undefined {
  if (!hasOnly(state, ["workspaceId", "lifecycle", "lifecycleEnvironment"])) return undefined;
  if (!hasOnly(placement, ["cwd"]) || typeof placement.cwd !== "string") return undefined;
  const { workspaceId, lifecycle, lifecycleEnvironment: env } = state;
  if (typeof workspaceId !== "string" || (lifecycle !== "ready" && lifecycle !== "paused")) return undefined;
  if (env !== undefined && !isEnvironment(env)) return undefined;
  return {
    state: { workspaceId, lifecycle, ...(env === undefined ? {} : { lifecycleEnvironment: env }) },
    placement: { cwd: placement.cwd },
  };
}

/** An object without any other key. Values that are undefined are left to the schema. */
function hasOnly(value: unknown, keys: readonly string[]): value is Record<string, unknown> {
  return isPlainObject(value) && Object.keys(value).every((key) => keys.includes(key) && value[key] !== undefined);
}

function isNonEmpty(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}

function isOptionalText(value: unknown): value is string | undefined {
  return value === undefined || typeof value === "string";
}

function isTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((entry) => typeof entry === "string");
}

function isWhole(value: unknown, least: number): boolean {
  return Number.isSafeInteger(value) && (value as number) >= least;
}

function isEnvironment(value: unknown): value is Record<string, string> {
  return isPlainObject(value) && Object.keys(value).every((key) => typeof value[key] === "string");
}

function isOptions(value: unknown): boolean {
  return isPlainObject(value) && Object.keys(value).every((key) => isJson(value[key], MAX_JSON_DEPTH));
}

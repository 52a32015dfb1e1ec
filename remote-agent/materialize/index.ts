/**
 * The host side of a workspace's beginning: makes the content of a workspace from a git URL, or from what the wrapper
 * sends of a local directory, with the outcome that Paseo's own worktrees would have; and tells later whether anything
 * in it would be lost.
 */
export { type Baseline, BaselineSchema, hasUnsavedWork } from "./baseline.ts";
export { withoutCredentials } from "./git-url.ts";
export { type MaterializeInput, type MaterializeResult, materialize } from "./materialize.ts";
export { removeTree } from "./remove-tree.ts";

/**
 * Calls the built runtime as its consumer, the Paseo daemon, does: one process for each operation, JSON on stdin and
 * stdout, five descriptors for exec, each in a process group of its own. For the demo and for end-to-end tests.
 */
export { Exec, type ExecResult, type ProcessEvent, type SpawnOptions, spawnEnvelope } from "./exec.ts";
export {
  type Installation,
  lifecycleRequest,
  type OperationResult,
  runOperation,
  runWrapper,
  startWrapper,
} from "./operation.ts";

/**
 * The contract's and the options' schemas, as a bundle of their own: loaded only for what the quick checks do not
 * accept, to say what is wrong with it.
 */
export {
  type CommandRuntimeControl,
  CommandRuntimeControlSchema,
  CommandRuntimeLifecycleResponseSchema,
  encodeCommandRuntimeMessage,
  parseCommandRuntimeMessage,
  parseLifecycleRequest,
} from "../contract/index.ts";
export { parseRuntimeOptions } from "../ssh/options.ts";

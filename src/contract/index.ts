/**
 * The Paseo command runtime contract, version 1: what Paseo and this product say to each other over stdin, stdout, fd 3
 * and fd 4. Schemas, exact bytes, framing and the order of events, under the names of Paseo's own contract package.
 * No other folder defines a shape of the contract.
 *
 * The wrapper imports the files by themselves: building the schemas of an operation that it does not perform would be
 * most of its start-up time.
 */
export {
  type CommandRuntimeDecoderOptions,
  type CommandRuntimeMessageDecoder,
  createCommandRuntimeMessageDecoder,
} from "./decoder.ts";
export * from "./describe.ts";
export { encodeCommandRuntimeMessage } from "./encode.ts";
export { createCommandRuntimeProcessEventDecoder } from "./event-order.ts";
export * from "./lifecycle.ts";
export { MAX_LIFECYCLE_REQUEST_BYTES, parseLifecycleRequest } from "./lifecycle-request.ts";
export type { JsonValue } from "./maps.ts";
export { type CommandRuntimeMessageSchema, parseCommandRuntimeMessage } from "./parse.ts";
export * from "./process.ts";
export { COMMAND_RUNTIME_PROTOCOL_VERSION } from "./version.ts";

import {
  type CommandRuntimeDecoderOptions,
  type CommandRuntimeMessageDecoder,
  createMessageDecoder,
} from "./message-decoder.ts";
import { type CommandRuntimeMessageSchema, parseCommandRuntimeMessage } from "./parse.ts";

export type { CommandRuntimeDecoderOptions, CommandRuntimeMessageDecoder };

/** Decodes a stream of messages of one schema. */
export function createCommandRuntimeMessageDecoder<Message>(
  schema: CommandRuntimeMessageSchema<Message>,
  options?: CommandRuntimeDecoderOptions,
): CommandRuntimeMessageDecoder<Message> {
  return createMessageDecoder((value, code) => parseCommandRuntimeMessage(schema, value, code), options);
}

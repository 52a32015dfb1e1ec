import { type ErrorCode, RuntimeError } from "../wire/errors.ts";
import { parseJson } from "./json.ts";
import { LineSplitter } from "./line-splitter.ts";
import { decodeUtf8, TextToBytes } from "./utf8.ts";

export interface CommandRuntimeDecoderOptions {
  /** Longest message, without its newline. Bytes; 1 MiB by default, where a spawn with a large environment has 0.1. */
  maxFrameBytes?: number;
  /** Code of the error when the stream breaks the contract. */
  code?: ErrorCode;
}

export interface CommandRuntimeMessageDecoder<Message> {
  /**
   * @returns the messages that this chunk completes
   * @throws RuntimeError at the first thing that is not a message; the messages before it in the same chunk are dropped, as
   *   an invalid stream must have no effect, and every later call throws the same error
   */
  push(chunk: Uint8Array | string): Message[];
  /** The stream has ended. @throws RuntimeError when it ended inside a message, or had failed before */
  finish(): void;
}

const DEFAULT_MAX_FRAME_BYTES = 1024 * 1024;
const SUBJECT = "A message";

/**
 * Decodes a stream of messages, one line of JSON each; chunks may be cut anywhere, also inside a character.
 * @param parse makes a message of a JSON value, or throws
 */
export function createMessageDecoder<Message>(
  parse: (value: unknown, code: ErrorCode) => Message,
  { maxFrameBytes = DEFAULT_MAX_FRAME_BYTES, code = "request-invalid" }: CommandRuntimeDecoderOptions = {},
): CommandRuntimeMessageDecoder<Message> {
  const lines = new LineSplitter(maxFrameBytes, code);
  const text = new TextToBytes(SUBJECT, code);

  function decode(line: Uint8Array): Message {
    if (line.length === 0) throw new RuntimeError(code, `${SUBJECT} is an empty line`);
    return parse(parseJson(decodeUtf8(line, SUBJECT, code), SUBJECT, code), code);
  }

  return failForGood({
    push: (chunk) => Array.from(lines.split(text.toBytes(chunk)), decode),
    finish() {
      if (lines.hasPartialLine || text.hasHalfCharacter) {
        throw new RuntimeError(code, "The stream of messages ended before newline, inside a message");
      }
    },
  });
}

/** Repeats the first error at every later call, so that nothing is decoded from the rest of a broken stream. */
export function failForGood<Message>(
  decoder: CommandRuntimeMessageDecoder<Message>,
): CommandRuntimeMessageDecoder<Message> {
  let failure: unknown;
  function guarded<Result>(action: () => Result): Result {
    if (failure !== undefined) throw failure;
    try {
      return action();
    } catch (error) {
      failure = error;
      throw error;
    }
  }
  return {
    push: (chunk) => guarded(() => decoder.push(chunk)),
    finish: () => guarded(() => decoder.finish()),
  };
}

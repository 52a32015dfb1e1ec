import { RuntimeError } from "../wire/errors.ts";
import {
  type CommandRuntimeDecoderOptions,
  type CommandRuntimeMessageDecoder,
  createCommandRuntimeMessageDecoder,
} from "./decoder.ts";
import { failForGood } from "./message-decoder.ts";
import { type CommandRuntimeProcessEvent, CommandRuntimeProcessEventSchema } from "./process.ts";

type EventType = CommandRuntimeProcessEvent["type"];
/** The last event that moved the execution on; `nothing` before the first. */
type Phase = "nothing" | "started" | "eof" | "exit" | "error";

/** The events of every execution that did not fail, in order. */
const SEQUENCE = ["started", "eof", "exit"] as const;

/**
 * Decodes fd 4 of an execution and holds it to the contract's order: exactly started, eof, exit; resized only for a
 * terminal, between started and eof; error at any time before exit. Nothing follows exit or error.
 *
 * @param mode how the execution was spawned (`stdio.kind`)
 * @param options the code of the errors is `internal` by default, as fd 4 is written by this product
 * @returns a decoder whose finish() throws, too, when neither exit nor error has come
 */
export function createCommandRuntimeProcessEventDecoder(
  mode: "pipes" | "pty",
  { code = "internal", ...framing }: CommandRuntimeDecoderOptions = {},
): CommandRuntimeMessageDecoder<CommandRuntimeProcessEvent> {
  const messages = createCommandRuntimeMessageDecoder(CommandRuntimeProcessEventSchema, { code, ...framing });
  let phase: Phase = "nothing";

  function advance({ type }: CommandRuntimeProcessEvent): void {
    const problem = orderProblem(mode, phase, type);
    if (problem !== undefined) {
      throw new RuntimeError(code, `The process events of a ${mode} execution are out of order: ${problem}`);
    }
    if (type !== "resized") phase = type;
  }

  return failForGood({
    push(chunk) {
      const events = messages.push(chunk);
      events.forEach(advance);
      return events;
    },
    finish() {
      messages.finish();
      if (phase !== "exit" && phase !== "error") {
        throw new RuntimeError(
          code,
          `The process events of a ${mode} execution ended without exit; the last was ${phase}`,
        );
      }
    },
  });
}

function orderProblem(mode: "pipes" | "pty", phase: Phase, type: EventType): string | undefined {
  if (phase === "exit" || phase === "error")
    return type === phase ? `duplicate ${type}` : `event after ${phase}: ${type}`;
  if (type === "error") return undefined;
  if (type === "resized") {
    if (mode === "pipes") return "resized, which only a terminal sends";
    if (phase === "nothing") return "resized before started";
    return phase === "eof" ? "resized after eof" : undefined;
  }
  const expectedIndex = phase === "nothing" ? 0 : SEQUENCE.indexOf(phase) + 1;
  const index = SEQUENCE.indexOf(type);
  if (index === expectedIndex) return undefined;
  return index < expectedIndex ? `duplicate ${type}` : `${type} before ${SEQUENCE[expectedIndex]}`;
}

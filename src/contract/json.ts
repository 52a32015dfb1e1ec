import { type ErrorCode, RuntimeError } from "../wire/errors.ts";

/**
 * JSON.parse whose error is a sentence of ours. The engine's own message quotes the text, which may carry secrets.
 *
 * @param subject what the text is, as the beginning of a sentence
 * @throws RuntimeError `code` when the text is not exactly one JSON value
 */
export function parseJson(text: string, subject: string, code: ErrorCode): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new RuntimeError(code, `${subject} ${describeProblem(text, error as SyntaxError)}`);
  }
}

function describeProblem(text: string, error: SyntaxError): string {
  const position = positionOf(error) ?? (/^Unexpected end of/.test(error.message) ? text.length : undefined);
  if (position === undefined) return "is not JSON";
  if (position >= text.length || error.message.startsWith("Unterminated string"))
    return "ends in the middle of a JSON value";
  const place = `character ${position + 1}`;
  if (!isJson(text.slice(0, position))) return `is not valid JSON, from ${place} on`;
  return isJson(text.slice(position))
    ? `holds a second JSON value, at ${place}; exactly one is expected`
    : `goes on after its JSON value, at ${place}`;
}

/** Zero-based. Anchored at the end: where V8 gives no position, its message quotes the text and ends differently. */
function positionOf(error: SyntaxError): number | undefined {
  const digits = /at position (\d+)(?: \(line \d+ column \d+\))?$/.exec(error.message)?.[1];
  return digits === undefined ? undefined : Number(digits);
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

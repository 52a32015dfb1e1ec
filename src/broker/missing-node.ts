import * as z from "zod/mini";
import { RuntimeError } from "../wire/errors.ts";

/** What the probe says about a host on which it found no node that will do. */
export const MissingNodeShape = {
  /** Newest major version below 18 that was found; 0 for none. */
  old: z.int(),
  /** Whether a program called node was found that does not answer, or not as Node.js does. */
  other: z.boolean(),
  /** uname(1), -s and -m. */
  system: z.string(),
  machine: z.string(),
  /** "glibc", "musl", or nothing where neither could be told. */
  libc: z.string(),
};
const MissingNodeSchema = z.object(MissingNodeShape);
export type MissingNode = z.infer<typeof MissingNodeSchema>;

interface Place {
  /** Host as the user calls it. */
  host: string;
  /** Path in the option node. */
  node?: string | undefined;
}

/** @returns RuntimeError node-missing or node-too-old */
export function missingNode(place: Place, found: MissingNode): RuntimeError {
  return new RuntimeError(
    found.old > 0 ? "node-too-old" : "node-missing",
    missingNodeCause(place, found),
    place.node === undefined
      ? "Install Node 18 or newer there, name its path with the option node, or set the option provisionNode"
      : "Correct the option node, or remove it to have one searched for",
  );
}

export function missingNodeCause({ host, node }: Place, { old, other }: MissingNode): string {
  if (node !== undefined) {
    if (old > 0) return `The node at ${node} on ${host} is version ${old}, and 18 or newer is needed`;
    return other
      ? `The program at ${node} on ${host} does not answer as Node.js does`
      : `There is no node at ${node} on ${host}`;
  }
  if (old > 0) return `The newest node that was found on ${host} is version ${old}, and 18 or newer is needed`;
  return other
    ? `A program called node was found on ${host}, but it does not answer as Node.js does`
    : `No node was found on ${host}`;
}

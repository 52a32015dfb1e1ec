import * as z from "zod/mini";
import { toDotPath } from "zod/v4/core";
import en from "zod/v4/locales/en.js";

// zod/mini ships without messages. This one locale costs 3 KB in a bundle, where `z.locales.en` would bring all fifty
// (260 KB), and it is built at the first failure only. Configured globally, so that `schema.parse` has messages as well.
let localeError: z.core.$ZodErrorMap | undefined;
z.config({
  localeError(issue) {
    localeError ??= en().localeError;
    return localeError(issue);
  },
});

/** Most issues that one sentence lists, and the most characters of one, so that a hostile key cannot fill the sentence. */
const MAX_ISSUES = 4;
const MAX_ISSUE_LENGTH = 240;

/**
 * What is wrong where, for instance `Unrecognized key: "x" at project.source; Invalid input: expected 1 at protocolVersion`.
 * Names keys and expectations, never a value of the message: values may be secrets.
 */
export function describeIssues(issues: readonly z.core.$ZodIssue[]): string {
  // Unknown keys first: they tell that the sender speaks a newer contract, and other issues tend to follow from that.
  const unknownKeys = issues.filter(({ code }) => code === "unrecognized_keys");
  const others = issues.filter(({ code }) => code !== "unrecognized_keys");
  const listed = [...unknownKeys, ...others].slice(0, MAX_ISSUES).map(describeIssue);
  const more = issues.length - listed.length;
  return [...listed, ...(more > 0 ? [`and ${more} more`] : [])].join("; ");
}

function describeIssue(issue: z.core.$ZodIssue): string {
  const place = toDotPath(issue.path);
  return place === "" ? cut(issue.message) : `${cut(issue.message)} at ${cut(place)}`;
}

function cut(text: string): string {
  return text.length > MAX_ISSUE_LENGTH ? `${text.slice(0, MAX_ISSUE_LENGTH - 1)}…` : text;
}

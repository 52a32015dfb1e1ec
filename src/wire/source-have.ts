import * as z from "zod/mini";

/** What a host says of a source before anything is sent. Apart from source.ts, whose schemas no wrapper needs. */

/** The host names at most this many commits; more would not make the pack noticeably smaller. */
export const MAX_HAVE_COMMITS = 2_000;

/** SHA-1 or SHA-256, in full. */
export const ObjectId = z.string().check(z.regex(/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/));

export const SourceHaveSchema = z.strictObject({
  commits: z.array(ObjectId).check(z.maxLength(MAX_HAVE_COMMITS)),
});
export type SourceHave = z.infer<typeof SourceHaveSchema>;

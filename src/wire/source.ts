import * as z from "zod/mini";

/**
 * What crosses the wire for a workspace whose source is a directory on the wrapper's machine: the host says which
 * commits its cache of this source has, the wrapper answers with a manifest and one byte stream. For a git work tree
 * that stream is one pack, for any other directory a tar archive.
 */

/** Refs that travel; a source with more keeps its branches first and loses tags last in the list. */
export const MAX_SOURCE_REFS = 20_000;

/** Characters of all ref names together, so that a manifest always fits into one Supply frame. */
export const MAX_SOURCE_REF_CHARACTERS = 3 * 1024 * 1024;

export const MAX_SHALLOW_COMMITS = 10_000;
export const MAX_INTENT_TO_ADD_PATHS = 2_000;
export const MAX_FETCHED_REFS = 16;

/** Git itself checks the rest of the rules; this keeps out whatever could end a line or begin an option. */
/** SHA-1 or SHA-256, in full. */
const ObjectId = z.string().check(z.regex(/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/));
const RefName = z.string().check(z.maxLength(1024), z.regex(/^refs\/[^\x00-\x20\x7f]+$/));
const ShortText = z.string().check(z.maxLength(1024));

const Ref = z.strictObject({ name: RefName, id: ObjectId });
export type SourceRef = z.infer<typeof Ref>;

export const SourceManifestSchema = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("plain") }),
  z.strictObject({
    kind: z.literal("git"),
    objectFormat: z.literal(["sha1", "sha256"]),
    /** Branches, remote-tracking branches and tags of the source. */
    refs: z.array(Ref).check(z.maxLength(MAX_SOURCE_REFS)),
    symbolicRefs: z.array(z.strictObject({ name: RefName, target: RefName })).check(z.maxLength(MAX_SOURCE_REFS)),
    /** What HEAD is; a branch without an entry in `refs` is unborn. */
    head: z.discriminatedUnion("kind", [
      z.strictObject({ kind: z.literal("branch"), ref: RefName }),
      z.strictObject({ kind: z.literal("detached"), id: ObjectId }),
    ]),
    /** Commits whose parents the source does not have. */
    shallow: z.array(ObjectId).check(z.maxLength(MAX_SHALLOW_COMMITS)),
    /** The pack was made without regard to what the host has: the source is shallow or has no refs. */
    selfContained: z.boolean(),
    /** Uncommitted state, as trees; only with the placement `existing`. */
    state: z.optional(
      z.strictObject({
        index: ObjectId,
        workTree: ObjectId,
        /** Paths of `git add --intent-to-add`, as base64 of their bytes, for a path need not be text. */
        intentToAdd: z.array(z.string().check(z.maxLength(8192))).check(z.maxLength(MAX_INTENT_TO_ADD_PATHS)),
      }),
    ),
    /** Refs that the wrapper fetched for this placement from remotes of the source. */
    fetched: z
      .array(z.strictObject({ remote: ShortText, ref: ShortText, id: ObjectId }))
      .check(z.maxLength(MAX_FETCHED_REFS)),
    /** The source directory relative to the top of its work tree; empty when it is the top. */
    subdirectory: z.string().check(z.maxLength(4096)),
  }),
]);
export type SourceManifest = z.infer<typeof SourceManifestSchema>;
export type GitSourceManifest = Extract<SourceManifest, { kind: "git" }>;

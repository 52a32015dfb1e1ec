/** What a host says of a source before anything is sent. Apart from source.ts, whose schemas no wrapper needs. */

/** The host names at most this many commits; more would not make the pack noticeably smaller. */
export const MAX_HAVE_COMMITS = 2_000;

export interface SourceHave {
  /** Full ids, SHA-1 or SHA-256, of commits that the host's cache of this source has. */
  commits: string[];
}

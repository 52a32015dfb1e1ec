/** What a source has become in the content folder. */
export interface Made {
  kind: "git" | "plain";
  branch: string | undefined;
  /** Folder that the source names, relative to the content. */
  subdirectory: string | undefined;
}

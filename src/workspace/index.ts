/**
 * The local side of a workspace's beginning: what is read from a directory on this machine and how it travels to the
 * host. Reads only: the source, its repository included, is left bit for bit as it was.
 */
export { type DirectorySource, openDirectorySource } from "./directory-source.ts";
export { readPaseoConfig } from "./paseo-config.ts";
export { sourceKey } from "./source-key.ts";

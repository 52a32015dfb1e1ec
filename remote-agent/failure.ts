import { RuntimeError } from "../src/wire/errors.ts";

/** errno(3): the disk, or the account's share of it, is full; or it has become read-only, as after a disk fault. */
const CAUSES: Record<string, string> = {
  ENOSPC: "is full",
  EDQUOT: "is full for this account",
  EROFS: "cannot be written",
};

/** Anything thrown, as what a person is told. A full disk of the host is no mistake of ours. */
export function failureOf(error: unknown): RuntimeError {
  const cause = CAUSES[(error as NodeJS.ErrnoException | undefined)?.code ?? ""];
  if (error instanceof RuntimeError || cause === undefined) return RuntimeError.from(error);
  return new RuntimeError(
    "root-not-writable",
    `A disk of the build host ${cause} (${(error as Error).message})`,
    "Free some space there, or name another folder with the option root",
    { cause: error },
  );
}

import type { ErrorCode } from "../../../src/wire/errors.ts";
import type { FaultWorld } from "./world.ts";

/** One thing that is wrong, and what a person is told about it. */
export interface Fault {
  /** Completes "reports …". */
  what: string;
  code: ErrorCode;
  /** How the sentence begins, whatever its names are. */
  sentence: RegExp;
}

/** Something that keeps everybody from the host: an operation and the doctor say the same about it. */
export interface ReachingFault extends Fault {
  /** Options that lead into it. */
  options: (world: FaultWorld) => Record<string, unknown> | Promise<Record<string, unknown>>;
  /** The step of the doctor that fails. */
  step: string;
  /** A text of these options that the sentence has to contain. */
  names?: (options: Record<string, unknown>) => string;
}

/** The line that a person reads, with how it ended. */
export interface Told {
  code: number | null;
  stderr: string;
}

/** Something that one operation fails with. */
export interface OperationFault extends Fault {
  provoke: (world: FaultWorld) => Promise<Told>;
  /** A text that the sentence has to contain. */
  names?: string;
}

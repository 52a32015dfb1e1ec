import { describe } from "vitest";
import { sshdAvailable } from "./sshd.ts";

/** What a machine must have for the tests in test/real; the fast tests need nothing but Node and git. */

/** Whether an OpenSSH server is installed. On CI its absence is an error, thrown when this file is imported. */
export const haveSshd: boolean = sshdAvailable();

/** `describe` for tests that talk to a real server: skipped, and said so by global-setup.ts, where there is none. */
export const describeReal = describe.skipIf(!haveSshd);

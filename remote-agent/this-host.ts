import { createHash } from "node:crypto";
import { hostname } from "node:os";

/**
 * A home folder may be shared by several hosts, and a process id means something on one of them only. So whatever lies
 * below the root and belongs to a process carries this name of its host.
 */
export function thisHost(): string {
  return createHash("sha256").update(hostname()).digest("hex").slice(0, 8);
}

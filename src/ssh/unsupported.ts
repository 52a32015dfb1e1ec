import { RuntimeError } from "../wire/errors.ts";
import { beyondSsh2 } from "./openssh-reasons.ts";
import type { SshTarget } from "./target.ts";

/**
 * Refuses a target that asks for something ssh2 does not do. Leaving it out in silence would reach another host, or
 * the right one in another way than the person decided.
 *
 * @throws RuntimeError option-invalid
 */
export function assertSupportedBySsh2(target: SshTarget): void {
  const beyond = beyondSsh2(target);
  if (beyond.length === 0) return;
  throw new RuntimeError(
    "option-invalid",
    `"${target.alias}" asks for ${beyond.join(" and ")}, which the carrier "ssh2" cannot do`,
    'Set the option carrier to "auto", or remove the setting from ssh_config or the options',
  );
}

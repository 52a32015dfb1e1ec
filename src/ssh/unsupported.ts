import { RuntimeError } from "../wire/errors.ts";
import { hostKeyAlgorithms } from "./ssh2-algorithms.ts";
import type { SshTarget } from "./target.ts";

/**
 * Refuses a target that asks for something ssh2 does not do. Leaving it out in silence would reach another host, or
 * the right one in another way than the person decided.
 *
 * @throws RuntimeError option-invalid
 */
export function assertSupportedBySsh2(target: SshTarget): void {
  const found: string[] = [];
  if (target.proxyUseFdpass) found.push("ProxyUseFdpass");
  if (hostKeyAlgorithms(target.hostKeyAlgorithms).length === 0) found.push("HostKeyAlgorithms");
  if (target.certificateFiles.length > 0) found.push("CertificateFile");
  if (target.knownHostsCommand !== undefined) found.push("KnownHostsCommand");
  if (target.carrier === "openssh") found.push('the option carrier "openssh"');
  if (found.length === 0) return;
  throw new RuntimeError(
    "option-invalid",
    `"${target.alias}" asks for ${found.join(" and ")}, which this version does not support yet`,
    "Name a host that can be reached directly, or remove the setting from ssh_config or the options",
  );
}

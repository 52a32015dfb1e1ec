import { existsSync } from "node:fs";
import { readIdentity } from "./identity-files.ts";
import { keyTypeOf, knownHostKeys, trustsAuthority } from "./known-hosts.ts";
import { filedAs, type SshTarget } from "./target.ts";

/**
 * Whether the `ssh` program makes the connection to a target.
 *
 * @returns what of the target ssh2 cannot do, by the names of ssh_config; empty when the person chose the program;
 * undefined when ssh2 makes the connection
 */
export function opensshReasons(target: SshTarget): string[] | undefined {
  if (target.carrier === "openssh") return [];
  if (target.carrier === "ssh2") return undefined;
  const reasons: string[] = [];
  for (let link: SshTarget | undefined = target; link !== undefined; link = link.jump) {
    reasons.push(...beyondSsh2(link).map((reason) => (link === target ? reason : `${reason} for ${link?.alias}`)));
  }
  return reasons.length === 0 ? undefined : reasons;
}

/** What the target asks for and ssh2 does not do; each is found in ssh_config or in a file that it names. */
export function beyondSsh2(target: SshTarget): string[] {
  const reasons: string[] = [];
  if (target.certificateFiles.length > 0) reasons.push("CertificateFile");
  if (target.knownHostsCommand !== undefined) reasons.push("KnownHostsCommand");
  if (target.proxyUseFdpass && target.proxyCommand !== undefined) reasons.push("ProxyUseFdpass");
  if (target.pkcs11Provider !== undefined) reasons.push("PKCS11Provider");
  if (target.hostKeyAlgorithms.length === 0) reasons.push("HostKeyAlgorithms");
  if (target.prefersGssapi) reasons.push("PreferredAuthentications with GSSAPI");
  return [...reasons, ...beyondSsh2InFiles(target)];
}

function beyondSsh2InFiles(target: SshTarget): string[] {
  const reasons: string[] = [];
  const identities = [...target.identityFiles, ...target.defaultIdentityFiles];
  const certificate = identities.map((file) => `${file}-cert.pub`).find((file) => existsSync(file));
  if (certificate !== undefined) reasons.push(`the certificate ${certificate}`);
  const securityKey = target.identityFiles.find((file) => isSecurityKey(file));
  if (securityKey !== undefined) reasons.push(`the FIDO key ${securityKey}`);
  if (knownByAuthorityOnly(target)) reasons.push("@cert-authority in the files of known hosts");
  return reasons;
}

function isSecurityKey(file: string): boolean {
  const { publicBlob } = readIdentity(file);
  return publicBlob !== undefined && (keyTypeOf(publicBlob)?.startsWith("sk-") ?? false);
}

/** With a key of its own on file a host needs no certificate: ssh2 asks the server for that key. */
function knownByAuthorityOnly(target: SshTarget): boolean {
  const files = [...target.userKnownHostsFiles, ...target.globalKnownHostsFiles];
  const { host, port } = filedAs(target);
  return trustsAuthority(files, host, port) && knownHostKeys(files, host, port).every((key) => key.revoked);
}

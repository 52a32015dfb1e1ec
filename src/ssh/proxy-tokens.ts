import { RuntimeError } from "../wire/errors.ts";
import type { SshTarget } from "./target.ts";

/**
 * A ProxyCommand or ProxyJump with its tokens replaced: %%, %h, %n, %p and %r as in ssh_config(5), "TOKENS", and %k,
 * which the page does not name but expand_proxy_command in OpenSSH's sshconnect.c knows.
 *
 * @throws RuntimeError option-invalid for a token that does not exist there
 */
export function expandProxy(text: string, target: SshTarget): string {
  const tokens: Record<string, string> = {
    "%": "%",
    h: target.host,
    k: target.hostKeyAlias ?? target.alias,
    n: target.alias,
    p: String(target.port),
    r: target.user,
  };
  return text.replace(/%(.?)/gs, (_, letter: string) => {
    const value = tokens[letter];
    if (value !== undefined) return value;
    throw new RuntimeError(
      "option-invalid",
      `The ProxyCommand or ProxyJump of "${target.alias}" has the token %${letter}, which ssh does not know there`,
      "Correct it in ssh_config",
    );
  });
}

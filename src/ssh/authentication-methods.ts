import type { ConfigValues } from "./target.ts";

/** A way to log in that we have; GSSAPI and host-based login are not among them. Names as in RFC 4252 and RFC 4256. */
export type LoginMethod = "publickey" | "keyboard-interactive" | "password";

/** OpenSSH's order (defaults of PreferredAuthentications in ssh_config(5)), as far as we have the methods. */
const DEFAULT_ORDER: readonly LoginMethod[] = ["publickey", "keyboard-interactive", "password"];

/** The keywords that switch a method off, newest name first. */
const SWITCHES: Record<LoginMethod, readonly string[]> = {
  publickey: ["pubkeyauthentication"],
  "keyboard-interactive": ["kbdinteractiveauthentication", "challengeresponseauthentication"],
  password: ["passwordauthentication"],
};

/** The methods that ssh_config leaves to us, in the order in which they are to be tried; may be none. */
export function loginMethodsOf(config: ConfigValues): LoginMethod[] {
  const preferred = config.get("preferredauthentications")?.[0];
  const ordered: readonly string[] = preferred === undefined ? DEFAULT_ORDER : preferred.toLowerCase().split(",");
  const isOff = (method: LoginMethod) => {
    const keyword = SWITCHES[method].find((name) => config.has(name));
    return keyword !== undefined && /^(no|false)$/i.test(config.get(keyword)?.[0] ?? "");
  };
  return DEFAULT_ORDER.filter((method) => ordered.includes(method) && !isOff(method)).sort(
    (left, right) => ordered.indexOf(left) - ordered.indexOf(right),
  );
}

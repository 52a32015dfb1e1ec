import { RuntimeError } from "../wire/errors.ts";

/** One value per letter of ssh_config(5), "TOKENS". */
export type TokenValues = Readonly<Record<string, string>>;

export interface Expansion {
  /** Keyword of the value, for messages. */
  keyword: string;
  home: string;
  tokens: TokenValues;
  env: Readonly<Record<string, string | undefined>>;
}

/**
 * Expands `~`, `%` tokens and `${VARIABLES}` of a path as OpenSSH does when it uses the value. `ssh -G` has done it for
 * the files of known hosts and the agent's socket already, and leaves it open for identity and certificate files.
 *
 * @throws RuntimeError option-invalid for what cannot be expanded: a wrong guess would name a wrong key
 */
export function expandPath(value: string, expansion: Expansion): string {
  const { home, tokens, env, keyword } = expansion;
  const problem = (what: string) =>
    new RuntimeError(
      "option-invalid",
      `ssh_config has ${what} in ${keyword} (${value})`,
      `Write the path out in ssh_config, or set the option of that name`,
    );
  let path = value;
  if (path === "~" || path.startsWith("~/")) path = home + path.slice(1);
  else if (path.startsWith("~")) throw problem("the home folder of another account");

  return path.replace(/%(.?)|\$\{([^}]*)\}/g, (_, token: string | undefined, variable: string | undefined) => {
    if (variable !== undefined) {
      const content = env[variable];
      if (content === undefined) throw problem(`the variable ${variable}, which is not available,`);
      return content;
    }
    const content = tokens[token ?? ""];
    if (content === undefined) throw problem(`the token %${token}, which is not supported,`);
    return content;
  });
}

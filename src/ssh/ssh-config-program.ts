import { execFile } from "node:child_process";
import { oneLine, RuntimeError } from "../wire/errors.ts";
import type { ConfigQuery, ConfigValues } from "./target.ts";

/** `ssh -G` prints some 5 KB. Bytes. */
const MAX_OUTPUT_BYTES = 1024 * 1024;
/** `Match exec` may run a program of the person's. */
const DEADLINE_MS = 10_000;

/**
 * An identity file of ours keeps ssh from listing its default ones, so that what it lists was configured by somebody.
 * "none" would not do: ssh drops repetitions, and a configured "none" has a meaning.
 */
const IDENTITY_MARK = "/nonexistent/paseo-ssh-runtime";

/** The other paths are printed as they stand in the file. */
const EXPANDED_BY_SSH = new Set(["userknownhostsfile", "globalknownhostsfile", "identityagent"]);

/**
 * Asks the `ssh` program what ssh_config says about a host, so that `Match`, `Include`, canonical names and the
 * distribution's patches mean the same as for `ssh host`.
 *
 * @returns undefined where there is no `ssh` program
 * @throws RuntimeError option-invalid when ssh refuses its configuration, or does not answer in time
 */
export async function configFromProgram(query: ConfigQuery): Promise<ConfigValues | undefined> {
  const args = ["-G"];
  if (query.configFile !== undefined) args.push("-F", query.configFile);
  if (query.user !== undefined) args.push("-l", query.user);
  if (query.port !== undefined) args.push("-p", String(query.port));
  args.push("-o", `IdentityFile=${IDENTITY_MARK}`);
  // Without "--" a host that begins with a dash would be an option.
  args.push("--", query.host);

  const env: NodeJS.ProcessEnv = {};
  for (const name of ["HOME", "PATH", "SSH_AUTH_SOCK"] as const) {
    const value = query.env[name];
    if (value !== undefined) env[name] = value;
  }
  return new Promise((resolve, reject) => {
    const limits = { timeout: DEADLINE_MS, killSignal: "SIGKILL", maxBuffer: MAX_OUTPUT_BYTES } as const;
    const child = execFile("ssh", args, { ...limits, env, encoding: "utf8" }, (error, stdout, stderr) => {
      if (error === null) resolve(parse(stdout));
      else if (error.code === "ENOENT" || error.code === "EACCES") resolve(undefined);
      else reject(refused(query.host, error.killed === true, stderr));
    });
    child.stdin?.end();
  });
}

function refused(host: string, timedOut: boolean, stderr: string): RuntimeError {
  const reason = timedOut
    ? `no answer within ${DEADLINE_MS / 1000} s`
    : oneLine(stderr).slice(0, 500) || "no reason given";
  return new RuntimeError(
    "option-invalid",
    `ssh cannot read its configuration for "${host}": ${reason}`,
    `Correct ssh_config until "ssh -G ${host}" prints it`,
  );
}

function parse(output: string): ConfigValues {
  const values = new Map<string, string[]>();
  for (const line of output.split("\n")) {
    const space = line.indexOf(" ");
    if (space < 0) continue;
    const keyword = line.slice(0, space).toLowerCase();
    const value = line.slice(space + 1);
    const added = keyword.endsWith("knownhostsfile") ? splitPaths(value) : [value];
    // A "%" in a path that ssh has expanded is not a token any more.
    const plain = EXPANDED_BY_SSH.has(keyword) ? added.map((path) => path.replaceAll("%", "%%")) : added;
    values.set(keyword, [...(values.get(keyword) ?? []), ...plain]);
  }
  const identities = (values.get("identityfile") ?? []).filter((file) => file !== IDENTITY_MARK);
  if (identities.length > 0) values.set("identityfile", identities);
  else values.delete("identityfile");
  return values;
}

/** `ssh -G` joins the paths with blanks and quotes nothing; a part that does not begin like a path belongs to the one before. */
function splitPaths(value: string): string[] {
  const paths: string[] = [];
  for (const part of value.split(" ")) {
    if (paths.length > 0 && !/^[/~]/.test(part) && part !== "none") paths.push(`${paths.pop()} ${part}`);
    else if (part !== "") paths.push(part);
  }
  return paths;
}

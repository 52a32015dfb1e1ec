import { readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import SSHConfig, { type Directive, type Line, LineType, type Section } from "ssh-config";
import { RuntimeError } from "../wire/errors.ts";
import { matchesPattern, matchesPatternList } from "./patterns.ts";
import type { ConfigQuery, ConfigValues } from "./target.ts";

/**
 * ssh_config without the `ssh` program. The ssh-config package reads the lines; what they mean (ssh_config(5): first
 * value wins, `Host`, `Match`, `Include`) is decided here, because the package follows no includes and would run a
 * `Match exec` differently from ssh. What cannot be decided is refused: a skipped condition could pick another host.
 */

const SYSTEM_CONFIG = "/etc/ssh/ssh_config";
/** OpenSSH's own limit of nested includes. */
const MAX_INCLUDE_DEPTH = 16;
const MAX_FILE_BYTES = 1024 * 1024;
const MAX_FILES = 256;

/** Keywords whose values add up; of the others the first one counts. */
const CUMULATIVE = new Set(["identityfile", "certificatefile"]);
/** Their values go to a shell, quotes included. */
const COMMANDS = new Set(["proxycommand", "knownhostscommand"]);
const PATH_LISTS = new Set(["userknownhostsfile", "globalknownhostsfile"]);

/** @throws RuntimeError option-invalid */
export function configFromFiles(query: ConfigQuery): ConfigValues {
  const evaluation = new Evaluation(query);
  if (query.configFile !== undefined) {
    evaluation.readFile(query.configFile, { folder: `${query.home}/.ssh`, required: true, private: false });
  } else {
    evaluation.readFile(`${query.home}/.ssh/config`, { folder: `${query.home}/.ssh`, required: false, private: true });
    evaluation.readFile(SYSTEM_CONFIG, { folder: dirname(SYSTEM_CONFIG), required: false, private: false });
  }
  return evaluation.result();
}

interface Source {
  /** What relative includes are relative to. */
  folder: string;
  required: boolean;
  /** OpenSSH refuses a `~/.ssh/config` that others may write, since whoever can may have commands run. */
  private: boolean;
  depth?: number;
}

class Evaluation {
  readonly #query: ConfigQuery;
  readonly #values = new Map<string, string[]>();
  #filesRead = 0;

  constructor(query: ConfigQuery) {
    this.#query = query;
    if (query.user !== undefined) this.#values.set("user", [query.user]);
    if (query.port !== undefined) this.#values.set("port", [String(query.port)]);
  }

  result(): ConfigValues {
    const { host, home } = this.#query;
    const values = this.#values;
    if (values.get("canonicalizehostname")?.[0]?.match(/^(yes|true|always)$/i)) {
      throw refusal("CanonicalizeHostname cannot be followed without the ssh program");
    }
    values.set("hostname", [this.#hostName()]);
    if (!values.has("userknownhostsfile"))
      values.set("userknownhostsfile", [`${home}/.ssh/known_hosts`, `${home}/.ssh/known_hosts2`]);
    if (!values.has("globalknownhostsfile")) {
      values.set("globalknownhostsfile", ["/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"]);
    }
    values.set("host", [host]);
    return values;
  }

  readFile(file: string, source: Source): void {
    const text = readConfig(file, source);
    if (text === undefined) return;
    this.#filesRead += 1;
    if (this.#filesRead > MAX_FILES) throw refusal(`more than ${MAX_FILES} files are included`);
    let lines: Iterable<Line>;
    try {
      lines = SSHConfig.parse(withCommandsHidden(text));
    } catch (error) {
      throw refusal(`${file} cannot be read (${error instanceof Error ? error.message : String(error)})`, error);
    }
    this.#evaluate(lines, source);
  }

  #evaluate(lines: Iterable<Line>, source: Source): void {
    for (const line of lines) {
      if (line.type !== LineType.DIRECTIVE) continue;
      const keyword = line.param.toLowerCase();
      const words = wordsOf(line.value);
      if (keyword === "host") {
        if (matchesPatternList(this.#query.host, words)) this.#evaluate((line as Section).config, source);
      } else if (keyword === "match") {
        if (this.#matches(words)) this.#evaluate((line as Section).config, source);
      } else if (keyword === "include") {
        for (const word of words) this.#include(word, source);
      } else {
        this.#set(keyword, COMMANDS.has(keyword) ? [commandOf(line.value)] : words);
      }
    }
  }

  #set(keyword: string, words: string[]): void {
    if (CUMULATIVE.has(keyword)) this.#values.set(keyword, [...(this.#values.get(keyword) ?? []), ...words]);
    else if (keyword === "proxyjump" || keyword === "proxycommand") this.#setProxy(keyword, words);
    else if (!this.#values.has(keyword)) this.#values.set(keyword, PATH_LISTS.has(keyword) ? words : [words.join(" ")]);
  }

  /** ssh_config(5): of ProxyJump and ProxyCommand, whichever stands first prevents the other. */
  #setProxy(keyword: string, words: string[]): void {
    if (!this.#values.has("proxyjump") && !this.#values.has("proxycommand"))
      this.#values.set(keyword, [words.join(" ")]);
  }

  #hostName(): string {
    const { host } = this.#query;
    return (this.#values.get("hostname")?.[0] ?? host).replace(/%([%h])/g, (_, token) => (token === "h" ? host : "%"));
  }

  /** Ends at the first criterion that does not hold, as ssh does, which runs no `exec` after one. */
  #matches(words: string[]): boolean {
    for (let index = 0; index < words.length; index += 1) {
      const word = words[index]!.toLowerCase();
      const negated = word.startsWith("!");
      const criterion = negated ? word.slice(1) : word;
      const value = criterion === "all" ? undefined : words[++index];
      if (this.#meets(criterion, value) === negated) return false;
    }
    return true;
  }

  #meets(criterion: string, value: string | undefined): boolean {
    const { host, localUser } = this.#query;
    const patterns = value?.split(",") ?? [];
    switch (criterion) {
      case "all":
        return true;
      case "host":
        return matchesPatternList(this.#hostName(), patterns);
      case "originalhost":
        return matchesPatternList(host, patterns);
      case "user":
        return matchesPatternList(this.#values.get("user")?.[0] ?? localUser, patterns);
      case "localuser":
        return matchesPatternList(localUser, patterns);
      default:
        throw refusal(`"Match ${criterion}" cannot be decided without the ssh program`);
    }
  }

  #include(pattern: string, source: Source): void {
    const depth = (source.depth ?? 0) + 1;
    if (depth > MAX_INCLUDE_DEPTH) throw refusal(`files include each other more than ${MAX_INCLUDE_DEPTH} times`);
    const fromHome = pattern.startsWith("~/") ? join(this.#query.home, pattern.slice(2)) : pattern;
    const absolute = fromHome.startsWith("/") ? fromHome : join(source.folder, fromHome);
    for (const file of filesMatching(absolute)) this.readFile(file, { ...source, required: false, depth });
  }
}

type Value = Directive["value"];

function wordsOf(value: Value): string[] {
  return typeof value === "string" ? [value] : value.map(({ val }) => val);
}

/** The package would take the quotes of a command apart, which are the shell's. */
function withCommandsHidden(text: string): string {
  return text.replace(
    /^(\s*(?:proxycommand|knownhostscommand)(?:\s*=\s*|[ \t]+))(\S.*)$/gim,
    (_, keyword: string, command: string) => keyword + Buffer.from(command.trimEnd()).toString("hex"),
  );
}

function commandOf(value: Value): string {
  return Buffer.from(wordsOf(value).join(""), "hex").toString();
}

/** Files that a path with `*` and `?` in it names, sorted as a shell does. */
function filesMatching(pattern: string): string[] {
  let found = ["/"];
  for (const segment of pattern.split("/").filter(Boolean)) {
    found = /[*?]/.test(segment)
      ? found.flatMap((folder) => namesIn(folder, segment).map((name) => join(folder, name)))
      : found.map((folder) => join(folder, segment));
  }
  return found;
}

function namesIn(folder: string, pattern: string): string[] {
  try {
    const names = readdirSync(folder).filter(
      (name) => matchesPattern(name, pattern) && (pattern.startsWith(".") || !name.startsWith(".")),
    );
    return names.sort();
  } catch {
    // glob(3) passes over folders that cannot be read.
    return [];
  }
}

function readConfig(file: string, { required, private: isPrivate }: Source): string | undefined {
  try {
    const stat = statSync(file);
    if (!stat.isFile() && !required) return undefined;
    if (isPrivate && ((stat.mode & 0o022) !== 0 || (stat.uid !== 0 && stat.uid !== process.getuid?.()))) {
      throw refusal(`${file} may be written by others`);
    }
    if (stat.size > MAX_FILE_BYTES) throw refusal(`${file} is larger than ${MAX_FILE_BYTES} bytes`);
    return readFileSync(file, "utf8");
  } catch (error) {
    if (error instanceof RuntimeError) throw error;
    if (!required) return undefined;
    throw refusal(`${file} cannot be read`, error);
  }
}

function refusal(problem: string, cause?: unknown): RuntimeError {
  return new RuntimeError(
    "option-invalid",
    `ssh_config: ${problem}`,
    "Correct ssh_config, or install the OpenSSH client",
    { cause },
  );
}

import { readFileSync, statSync } from "node:fs";
import type { Command } from "commander";
import * as z from "zod/mini";
import { RuntimeError } from "../wire/errors.ts";

/**
 * How an operator's command is told about a host: by HOST and single options, or by the entry of Paseo's config.json, so
 * that it sees exactly what Paseo uses.
 */

export interface HostArguments {
  option: string[];
  config?: string;
  runtime?: string;
}

const MAX_CONFIG_BYTES = 1024 * 1024;

const ConfigSchema = z.object({ workspaceRuntimes: z.record(z.string(), z.unknown()) });
const EntrySchema = z.object({ options: z.record(z.string(), z.unknown()) });

/** Adds the argument HOST and the options beside it to a command. */
export function takesHost(command: Command): Command {
  return command
    .argument("[HOST]", "alias from ssh_config, host name, or user@host:port")
    .option(
      "-o, --option <key=value>",
      "one of the runtime's options (docs/options.md); may be given several times",
      (value: string, earlier: string[]) => [...earlier, value],
      [] as string[],
    )
    .option("--config <file>", "take host and options from this config.json of Paseo's, in place of HOST")
    .option("--runtime <name>", "name of the entry in it");
}

/**
 * @returns the runtime's options, unchecked
 * @throws RuntimeError usage, option-invalid when the file has no such entry
 */
export function rawOptions(host: string | undefined, args: HostArguments): Record<string, unknown> {
  return { ...baseOptions(host, args), ...Object.fromEntries(args.option.map(parseOption)) };
}

function baseOptions(host: string | undefined, { config, runtime }: HostArguments): Record<string, unknown> {
  if (host !== undefined && config === undefined && runtime === undefined) return { host };
  if (host === undefined && config !== undefined && runtime !== undefined) return entryOf(config, runtime);
  throw new RuntimeError(
    "usage",
    "Name either HOST, or --config FILE with --runtime NAME",
    "See: paseo-ssh-runtime --help",
  );
}

function entryOf(file: string, name: string): Record<string, unknown> {
  const runtimes = ConfigSchema.safeParse(readJson(file)).data?.workspaceRuntimes;
  const entry = runtimes !== undefined && Object.hasOwn(runtimes, name) ? runtimes[name] : undefined;
  const parsed = EntrySchema.safeParse(entry);
  if (parsed.success) return parsed.data.options;
  const names = Object.keys(runtimes ?? {});
  throw new RuntimeError(
    "option-invalid",
    `${file} has no workspace runtime "${name}" with options`,
    names.length === 0 ? "Name Paseo's config.json" : `It has: ${names.join(", ")}`,
  );
}

function readJson(file: string): unknown {
  try {
    if (statSync(file).size > MAX_CONFIG_BYTES) throw new Error(`it is larger than ${MAX_CONFIG_BYTES} bytes`);
    return JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    // The parser's message quotes the text, which may hold secrets.
    const reason = error instanceof SyntaxError ? "it is not JSON" : (error as Error).message;
    throw new RuntimeError("option-invalid", `The file ${file} cannot be read (${reason})`, "Name Paseo's config.json");
  }
}

/** The value is JSON where it can be read as such, and text where not: `port=22`, `identitiesOnly=true`, `user=build`. */
function parseOption(text: string): [key: string, value: unknown] {
  const equals = text.indexOf("=");
  if (equals < 1) {
    throw new RuntimeError("usage", `--option ${text} has no value`, "Write it as --option key=value");
  }
  const value = text.slice(equals + 1);
  try {
    return [text.slice(0, equals), JSON.parse(value)];
  } catch {
    return [text.slice(0, equals), value];
  }
}

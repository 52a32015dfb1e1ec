import { type Command, InvalidArgumentError } from "commander";
import { type AuthOptions, listSecrets, removeSecrets, setSecret } from "./auth.ts";

/** Adds `auth set`, `auth list` and `auth remove` to the operator's commands. */
export function addAuthCommands(program: Command): void {
  const auth = program
    .command("auth")
    .description("passwords and key passphrases in the keychain of this machine, for hosts that need them");
  withTarget(auth.command("set"), "<host>")
    .description("store a secret; it is asked for without echo, or read from standard input")
    .option("--password", "the password of the account (default)")
    .option("--passphrase <keyfile>", "the passphrase of a key file")
    .action((host: string, options: AuthOptions) => setSecret(host, options));
  withTarget(auth.command("list"), "[host]")
    .description("show for what secrets are stored, of all hosts or of one, and never the secrets")
    .option("--json", "print one JSON value")
    .action((host: string | undefined, options: AuthOptions) => listSecrets(host, options));
  withTarget(auth.command("remove"), "<host>")
    .description("remove what `auth list HOST` shows, or one of it")
    .option("--password", "only the password of the account")
    .option("--passphrase <keyfile>", "only the passphrase of this key file")
    .action((host: string, options: AuthOptions) => removeSecrets(host, options));
}

/** What of the runtime's options says which account and which ssh_config is meant. */
function withTarget(command: Command, host: string): Command {
  return command
    .argument(host, 'as in the runtime\'s options: an alias from ssh_config, a host name or "user@host:port"')
    .option("--user <name>", "account on the host")
    .option("--port <number>", "port of the SSH server", toPort)
    .option("--ssh-config-file <path>", "read instead of the user's and the system's ssh_config");
}

function toPort(text: string): number {
  if (!/^[0-9]{1,5}$/.test(text)) throw new InvalidArgumentError("It must be a whole number from 1 to 65535.");
  return Number(text);
}

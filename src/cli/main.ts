import { Command, CommanderError } from "commander";
import { RuntimeError } from "../wire/errors.ts";
import { addAuthCommands } from "./auth-command.ts";
import { stopBrokers } from "./broker-stop.ts";
import { examineHost } from "./doctor/doctor.ts";
import { takesHost } from "./host-arguments.ts";
import { printStatus } from "./status.ts";
import { trust } from "./trust.ts";

/**
 * The operator's commands. Loaded only when no operation of the contract is named, since commander alone costs more
 * start-up time than a warm operation has.
 */

/** @param args without node and the script */
export async function runCommand(args: readonly string[]): Promise<void> {
  const program = new Command("paseo-ssh-runtime")
    .description("A Paseo command workspace runtime whose workspaces live on another machine, over SSH.")
    .addHelpText(
      "after",
      "\nPaseo calls: describe, create, inspect, exec, signal, pause, resume, destroy, reconcile (see docs/architecture.md).",
    )
    .exitOverride()
    .configureOutput({ writeErr: () => {} });
  program
    .command("status")
    .description("show the connection broker and the hosts it is connected to")
    .option("--json", "print one JSON value")
    .action((options: { json?: boolean }) => printStatus(options.json === true));
  takesHost(program.command("trust").description("show the host key of a host, and file it when you accept it"))
    .option("--fingerprint <SHA256:…>", "accept a key with this fingerprint without asking")
    .action(trust);
  takesHost(program.command("doctor").description("try every step from the options to a terminal on a host"))
    .option("--json", "print one JSON value")
    .action(examineHost);
  const broker = program.command("broker").description("the process that keeps SSH connections open");
  broker.command("stop").description("end it; running executions continue over a new one").action(stopBrokers);
  addAuthCommands(program);
  try {
    await program.parseAsync([...args], { from: "user" });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.exitCode === 0) return;
    throw new RuntimeError("usage", error.message.replace(/^error: /, ""), "See: paseo-ssh-runtime --help");
  }
}

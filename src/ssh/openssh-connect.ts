import { randomBytes } from "node:crypto";
import { rmSync } from "node:fs";
import type { Socket } from "node:net";
import { join } from "node:path";
import { RuntimeError } from "../wire/errors.ts";
import { securePrivateFolder } from "../wire/private-folder.ts";
import { runtimeFolder } from "../wire/runtime-folder.ts";
import type { Carrier } from "./carrier.ts";
import type { ConnectOptions } from "./connect-options.ts";
import { timeoutError } from "./network-errors.ts";
import { masterArguments } from "./openssh-arguments.ts";
import { OpensshCarrier } from "./openssh-carrier.ts";
import { connectFailure } from "./openssh-failures.ts";
import { SshLog } from "./openssh-log.ts";
import { takeOverMaster } from "./openssh-mux.ts";
import { findSsh, SshProcess } from "./openssh-program.ts";
import { type SshTarget, targetName } from "./target.ts";

/** The shorter of the systems' bounds (macOS), without the 17 that OpenSSH adds while it binds. Bytes. */
const MAX_CONTROL_PATH_BYTES = 104 - 17 - 1;

/**
 * Connects and logs in with the system's `ssh`, which reads ssh_config, checks the host key and finds keys as it does
 * for a person; it asks no questions. One deadline, `connectTimeoutMs`, covers everything.
 *
 * @param reasons what the target has that ssh2 cannot do; empty when the person chose this carrier
 * @throws RuntimeError ssh-program-missing, option-invalid, host-unknown, connection-refused, connection-timeout,
 * connection-failed, host-key-unknown, host-key-changed, host-key-revoked, authentication-failed, runtime-folder-unsafe
 */
export async function connectOpenssh(
  target: SshTarget,
  reasons: readonly string[],
  options: ConnectOptions = {},
): Promise<Carrier> {
  const { HOME, PATH } = target.program.env;
  const program = findSsh(PATH);
  if (program === undefined) throw missing(target, reasons);
  const { signal, authSock } = options;
  if (signal?.aborted) throw givenUp(target);

  const begun = performance.now();
  const controlPath = newControlPath();
  const env: NodeJS.ProcessEnv = {
    ...(HOME === undefined ? {} : { HOME }),
    ...(PATH === undefined ? {} : { PATH }),
    ...(authSock === undefined ? {} : { SSH_AUTH_SOCK: authSock }),
  };
  const log = new SshLog();
  const report = progressOf(target, program, reasons, options);
  let onReady: () => void = () => {};
  const ready = new Promise<void>((resolve) => {
    onReady = resolve;
  });
  const ssh = new SshProcess(program, masterArguments(target, controlPath), env, (line) => {
    log.add(line);
    report(log);
    if (log.ready) onReady();
  });
  let interruption: RuntimeError | undefined;
  const interrupt = (error: RuntimeError) => {
    interruption ??= error;
    ssh.kill();
  };
  const onAbort = () => interrupt(givenUp(target));
  signal?.addEventListener("abort", onAbort, { once: true });
  const deadline = setTimeout(() => interrupt(timeoutError(target)), target.connectTimeoutMs);
  try {
    await Promise.race([ready, ssh.ended]);
    let line: Socket;
    try {
      if (interruption !== undefined || !log.ready) throw new Error("ssh has ended");
      line = await takeOverMaster(controlPath);
    } catch (error) {
      ssh.kill();
      await ssh.ended;
      if (interruption !== undefined) throw interruption;
      throw log.ready ? unusable(target, error) : connectFailure(target, log);
    }
    options.log?.(
      `connected to ${targetName(target)} by ${program} with ${log.login ?? "no key"} in ${Math.round(performance.now() - begun)} ms`,
    );
    return new OpensshCarrier(ssh, line, log, target);
  } finally {
    clearTimeout(deadline);
    signal?.removeEventListener("abort", onAbort);
    rmSync(controlPath, { force: true });
  }
}

/** Passes the steps of an attempt on as ssh tells them, each once. */
function progressOf(
  target: SshTarget,
  program: string,
  reasons: readonly string[],
  { trace }: ConnectOptions,
): (log: SshLog) => void {
  const told = new Set<string>();
  const tell = (step: "transport" | "host-key" | "login", detail: string | undefined) => {
    if (detail === undefined || told.has(step)) return;
    told.add(step);
    trace?.({ step, name: targetName(target), detail });
  };
  const by = `by ${program}${reasons.length === 0 ? "" : ` because of ${reasons.join(" and ")}`}`;
  return (log) => {
    // Behind a ProxyCommand there is no address.
    if (log.address !== undefined || log.hostKey !== undefined) tell("transport", `${log.address ?? "a proxy"} ${by}`);
    // A key that is presented is not good yet; the login shows that it was.
    if (log.login !== undefined) tell("host-key", log.hostKey ?? "");
    if (log.ready) tell("login", log.login ?? "no key");
  };
}

/** In the private folder of this user's sockets. The name lives for the time of the login. */
function newControlPath(): string {
  const folder = runtimeFolder(process.env);
  securePrivateFolder(folder);
  const path = join(folder, `ssh-${randomBytes(6).toString("hex")}`);
  if (Buffer.byteLength(path) <= MAX_CONTROL_PATH_BYTES) return path;
  throw new RuntimeError(
    "runtime-folder-unsafe",
    `The path of the runtime folder ${folder} is too long for a socket`,
    "Set PASEO_SSH_RUNTIME_DIR to a shorter one",
  );
}

function missing(target: SshTarget, reasons: readonly string[]): RuntimeError {
  const wish =
    reasons.length === 0 ? 'The option carrier is "openssh"' : `"${target.alias}" has ${reasons.join(" and ")}`;
  return new RuntimeError(
    "ssh-program-missing",
    `${wish}, which needs the ssh program, and there is none on the PATH`,
    "Install the OpenSSH client, or remove the setting",
  );
}

function unusable(target: SshTarget, error: unknown): RuntimeError {
  return new RuntimeError(
    "connection-failed",
    `The ssh program has logged in to ${targetName(target)} and then cannot be used (${error instanceof Error ? error.message : String(error)})`,
    "It must be OpenSSH 7.6 or newer",
    { cause: error },
  );
}

function givenUp(target: SshTarget): RuntimeError {
  return new RuntimeError(
    "connection-failed",
    `The connection to ${targetName(target)} was given up before it was established`,
  );
}

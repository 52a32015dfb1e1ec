import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { AgentEndpoint, AgentFiles, type AgentOptions } from "../../broker/index.ts";
import {
  agentSocket,
  type CallerEnvironment,
  type Carrier,
  type ConnectEvent,
  connect,
  Keychain,
  lookUp,
  parseRuntimeOptions,
  type RuntimeOptions,
  resolveTarget,
  type SshTarget,
} from "../../ssh/index.ts";
import { type ErrorCode, RuntimeError } from "../../wire/errors.ts";
import { LINK_NAME_BYTES } from "../../wire/frame.ts";
import { callerEnvironment } from "../../wrapper/dial.ts";
import { type Examination, Pointless, type Step } from "./examination.ts";

/** The steps from the options to a stream to the agent, over a connection of their own. */

const NEXT: Record<ConnectEvent["step"], ConnectEvent["step"]> = {
  transport: "host-key",
  "host-key": "login",
  login: "transport",
};

/** What some failures are about, however far the attempt seems to have come. */
const STEP_OF_CODE: Partial<Record<ErrorCode, Step>> = {
  "host-key-unknown": "host-key",
  "host-key-changed": "host-key",
  "host-key-revoked": "host-key",
  "authentication-failed": "login",
};

/** @throws Pointless when one of them fails */
export async function reachHost(
  examination: Examination,
  readRaw: () => Record<string, unknown>,
  signal: AbortSignal,
): Promise<{ rawOptions: Record<string, unknown>; options: RuntimeOptions }> {
  const caller = callerEnvironment(process.env);
  const { rawOptions, options, target } = await examination.step("configuration", async () => {
    const rawOptions = readRaw();
    const options = parseRuntimeOptions(rawOptions);
    const target = await resolveTarget(options, caller);
    return { found: describeTarget(target), value: { rawOptions, options, target } };
  });
  await examination.step("name", () => resolveName(target));
  const carrier = await logIn(examination, target, caller, signal);
  const abort = () => carrier.close();
  signal.addEventListener("abort", abort);
  try {
    const deadlineMs = target.connectTimeoutMs;
    const hasAuthAgent = agentSocket(target, caller.SSH_AUTH_SOCK) !== undefined;
    await reachAgent(examination, carrier, { ...options, deadlineMs }, hasAuthAgent);
  } finally {
    signal.removeEventListener("abort", abort);
    carrier.close();
  }
  return { rawOptions, options };
}

function describeTarget(target: SshTarget) {
  const { proxyJump, proxyCommand, hostKeyAlias } = target;
  return {
    user: target.user,
    host: target.host,
    port: target.port,
    ...(proxyJump === undefined ? {} : { hops: proxyJump.split(",") }),
    // People put secrets into it.
    ...(proxyCommand === undefined ? {} : { proxyCommand: "as ssh_config says" }),
    identities: [...target.identityFiles, ...target.defaultIdentityFiles],
    knownHosts: [...target.userKnownHostsFiles, ...target.globalKnownHostsFiles],
    ...(hostKeyAlias === undefined ? {} : { hostKeyAlias }),
  };
}

async function resolveName(target: SshTarget) {
  const { proxyJump, proxyCommand } = target;
  if (proxyJump !== undefined || proxyCommand !== undefined) {
    return { found: { addresses: "left to what leads there" }, value: undefined };
  }
  return { found: { addresses: await lookUp(target) }, value: undefined };
}

/** The connection tells how far it has come, so its steps end as it goes. */
async function logIn(
  examination: Examination,
  target: SshTarget,
  caller: CallerEnvironment,
  signal: AbortSignal,
): Promise<Carrier> {
  examination.begin("transport");
  let carrier: Carrier | undefined;
  const trace = ({ step, name, detail, hop }: ConnectEvent) => {
    examination.succeed({ to: name, [FOUND_AS[step]]: detail });
    if (step !== "login" || hop) examination.begin(NEXT[step]);
  };
  try {
    const authSock = caller.SSH_AUTH_SOCK;
    carrier = await connect(target, { authSock, env: caller, keychain: new Keychain(caller), signal, trace });
  } catch (error) {
    examination.fail(error, STEP_OF_CODE[RuntimeError.from(error).code]);
    throw new Pointless();
  }
  return carrier;
}

const FOUND_AS: Record<ConnectEvent["step"], string> = { transport: "address", "host-key": "key", login: "with" };

async function reachAgent(
  examination: Examination,
  carrier: Carrier,
  options: AgentOptions,
  hasAuthAgent: boolean,
): Promise<void> {
  const files = new AgentFiles(join(import.meta.dirname, "agent"));
  const endpoint = new AgentEndpoint(carrier, randomBytes(LINK_NAME_BYTES), files, options, hasAuthAgent);
  let agent = "found";
  const deployed = () => {
    agent = "put there now";
  };
  try {
    examination.begin("host");
    try {
      const address = await endpoint.locate(deployed, ({ platform, libc, node, nodePath, root }) => {
        examination.succeed({
          platform,
          libc,
          node: `${nodePath} (${node})`,
          root: `${root}, writable and executable`,
        });
        examination.begin("agent");
      });
      examination.succeed({ build: address.build, files: agent, process: address.pid });
    } catch (error) {
      examination.fail(error);
      throw new Pointless();
    }
    await examination.step("stream", async () => {
      const channel = await endpoint.openChannel(() => {});
      channel.destroy();
      return { found: { to: "the agent" }, value: undefined };
    });
  } finally {
    endpoint.close();
  }
}

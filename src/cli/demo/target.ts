import { randomBytes } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { startEmbeddedServer } from "./embedded-server.ts";
import { makeKeyPair } from "./keys.ts";

/** The build host of one run. */
export interface DemoTarget {
  /** What it is, for a person. */
  description: string;
  /** The runtime's options that reach it. */
  options: Record<string, unknown>;
  /** Whole environment of the wrappers. */
  env: NodeJS.ProcessEnv;
  /** Folder in the account's home that is this run's alone and goes with it; absent when the person named a root. */
  ownRoot?: string;
  stop(): Promise<void>;
}

const EMBEDDED_USER = "demo";

/**
 * A host inside this process. Its account has a home of its own, so that it has neither the person's configuration nor
 * leaves anything in it.
 *
 * @param folder private folder of this run
 */
export async function embeddedTarget(folder: string): Promise<DemoTarget> {
  const home = join(folder, "home");
  mkdirSync(home);
  const userKey = makeKeyPair();
  const hostKey = makeKeyPair();
  const server = await startEmbeddedServer({
    user: EMBEDDED_USER,
    userKey: userKey.publicKey,
    hostKey: hostKey.privateText,
    home,
    env: { HOME: home, PATH: process.env.PATH, SHELL: "/bin/sh", LANG: process.env.LANG },
  });
  const write = (name: string, text: string) => {
    const path = join(folder, name);
    writeFileSync(path, text, { mode: 0o600 });
    return path;
  };
  const ownRoot = newRoot();
  // An agent of the person's may ask for a confirmation of each use; nothing here needs one.
  const { SSH_AUTH_SOCK: _agent, ...env } = process.env;
  return {
    description: `an SSH server inside this process, ${EMBEDDED_USER}@127.0.0.1:${server.port}, with keys made just now`,
    options: {
      host: "127.0.0.1",
      port: server.port,
      user: EMBEDDED_USER,
      identityFile: write("id_ecdsa", userKey.privateText),
      identitiesOnly: true,
      knownHostsFile: write("known_hosts", `[127.0.0.1]:${server.port} ${hostKey.publicLine}\n`),
      sshConfigFile: write("ssh_config", ""),
      root: ownRoot,
      node: process.execPath,
    },
    env,
    ownRoot,
    stop: () => server.stop(),
  };
}

/** A host of the person's, reached as their ssh reaches it. */
export function realTarget(options: Record<string, unknown>): DemoTarget {
  const ownRoot = options.root === undefined ? newRoot() : undefined;
  return {
    description: String(options.host),
    options: ownRoot === undefined ? options : { ...options, root: ownRoot },
    env: process.env,
    ...(ownRoot === undefined ? {} : { ownRoot }),
    stop: () => Promise.resolve(),
  };
}

/** Short, because the agent's socket lies below it and the path of a socket is bounded. */
function newRoot(): string {
  return `~/.paseo-demo-${randomBytes(3).toString("hex")}`;
}

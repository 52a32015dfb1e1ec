import { type GitOptions, runGit } from "./git-process.ts";

/**
 * Environment for git commands that talk to a remote. ssh may not ask (there is nobody to answer) and notices a dead
 * connection, unless the account has its own ssh command, which then is in charge.
 */
export async function networkEnvironment(options: GitOptions): Promise<Record<string, string>> {
  if (process.env.GIT_SSH_COMMAND || process.env.GIT_SSH) return {};
  const configured = await runGit(["config", "--get", "core.sshCommand"], options);
  if (configured.exitCode === 0) return {};
  return {
    GIT_SSH_COMMAND: "ssh -oBatchMode=yes -oConnectTimeout=30 -oServerAliveInterval=15 -oServerAliveCountMax=4",
  };
}

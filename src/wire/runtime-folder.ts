import { statSync } from "node:fs";
import { join, resolve } from "node:path";

/**
 * Where the sockets of this user's brokers are. It must come out the same in every environment of the user (a daemon's
 * lacks XDG_RUNTIME_DIR where a login has it), and short, for a socket's path is bounded.
 * @param env PASEO_SSH_RUNTIME_DIR overrides everything
 */
export function runtimeFolder(env: NodeJS.ProcessEnv): string {
  // The broker runs in another working folder.
  if (env.PASEO_SSH_RUNTIME_DIR) return resolve(env.PASEO_SSH_RUNTIME_DIR);
  const uid = process.getuid?.() ?? 0;
  const systemd = `/run/user/${uid}`;
  try {
    if (statSync(systemd).uid === uid) return join(systemd, "paseo-ssh-runtime");
  } catch {
    // No systemd here, or no login session of this user.
  }
  return `/tmp/paseo-ssh-runtime-${uid}`;
}

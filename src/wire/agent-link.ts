/**
 * Path of the link, beside the agent's socket, that leads to the forwarded ssh agent of whoever connected last. It stays
 * the same while connections come and go, so workloads can have it as SSH_AUTH_SOCK.
 * @param socketPath of the agent of this runtime, `<folder>/<name>.sock`; the link's path is as long
 */
export function authLinkPath(socketPath: string): string {
  return socketPath.replace(/\.sock$/, ".auth");
}

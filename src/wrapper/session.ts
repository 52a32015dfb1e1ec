/**
 * A name for this wrapper that no other one has. It is no secret (the agent's socket is private already), so it does
 * not need node:crypto, which would cost start-up time.
 */
export function newSession(): string {
  const random = () => Math.floor(Math.random() * 2 ** 32).toString(36);
  return `${Date.now().toString(36)}-${process.pid.toString(36)}-${random()}-${random()}`;
}

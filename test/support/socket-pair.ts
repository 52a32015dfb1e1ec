import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { scratchFolder } from "./scratch-folder.ts";

/** Two ends of a connection over a real unix socket, half-open allowed on both; destroyed when the test is over. */
export async function socketPair(): Promise<[Socket, Socket]> {
  const path = join(scratchFolder(), "pair.sock");
  const server = createServer({ allowHalfOpen: true });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  const near = connect({ path, allowHalfOpen: true });
  const [far] = (await once(server, "connection")) as [Socket];
  server.close();
  onTestFinished(() => {
    near.destroy();
    far.destroy();
  });
  return [near, far];
}

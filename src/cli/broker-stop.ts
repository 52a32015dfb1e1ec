import { askBrokers } from "./broker-client.ts";

/** `paseo-ssh-runtime broker stop`. Stopping what does not run is no failure. */
export async function stopBrokers(): Promise<void> {
  const stopped = (await askBrokers({ type: "stop" })).filter((reply) => reply.type === "stopping");
  console.log(
    stopped.length === 0 ? "No broker was running." : `Stopped broker ${stopped.map((reply) => reply.pid).join(", ")}.`,
  );
}

import type { HostStatus } from "../wire/dial.ts";
import { askBrokers } from "./broker-client.ts";

/** `paseo-ssh-runtime status`: who keeps connections, and to where. */
export async function printStatus(json: boolean): Promise<void> {
  const brokers = (await askBrokers({ type: "status" })).filter((reply) => reply.type === "status");
  const hosts = brokers.flatMap((broker) => broker.hosts);
  const first = brokers[0];
  if (json) {
    console.log(JSON.stringify({ broker: first === undefined ? null : { pid: first.pid }, hosts }));
    return;
  }
  if (first === undefined) {
    console.log("No broker is running; the next operation starts one.");
    return;
  }
  console.log(`Broker: process ${brokers.map((broker) => broker.pid).join(", ")}`);
  if (hosts.length === 0) console.log("No host is connected.");
  for (const host of hosts) console.log(describeHost(host));
}

function describeHost(host: HostStatus): string {
  const agent =
    host.agent === undefined
      ? ""
      : `, agent ${host.agent.build} (process ${host.agent.pid}, node ${host.agent.node}, ${host.agent.platform})`;
  const error = host.error === undefined ? "" : `, last error: ${host.error}`;
  return `${host.host}: ${host.state}, ${host.channels} channels in use, ${host.spares} spare${agent}${error}`;
}

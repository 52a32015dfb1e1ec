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
  const { agent, error, connectedForMs, roundTripMs, executions, workspaces } = host;
  return [
    `${host.host}: ${host.state}${connectedForMs === undefined ? "" : ` for ${duration(connectedForMs)}`}`,
    ...(host.carrier === undefined ? [] : [`over ${host.carrier}`]),
    ...(roundTripMs === undefined ? [] : [`round trip ${roundTripMs} ms`]),
    `${host.channels} channels in use`,
    `${host.spares} spare`,
    ...(executions === undefined ? [] : [`${executions} executions in ${workspaces} workspaces`]),
    ...(agent === undefined
      ? []
      : [`agent ${agent.build} (process ${agent.pid}, node ${agent.node}, ${agent.platform})`]),
    ...(error === undefined ? [] : [`last error: ${error}`]),
  ].join(", ");
}

/** @param ms @returns two units at most, as in `3 h 5 min` */
function duration(ms: number): string {
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 24 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

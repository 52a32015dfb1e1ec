/**
 * The broker: keeps SSH connections and deploys the agent. Wrappers reach it through the dial protocol only
 * (src/wire/dial.ts); this index is for what runs a broker inside its own process.
 */
export { AgentEndpoint, type AgentOptions } from "./agent-endpoint.ts";
export { AgentFiles } from "./agent-files.ts";
export { Broker } from "./broker.ts";

import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { DelayedPipe, type LinkState } from "./delayed-pipe.ts";

/**
 * A TCP proxy that stands for a long or bad link: this machine has no `tc netem`. Delay does not limit throughput, and
 * a connection costs what it costs in TCP: the server sees it after three one-way trips.
 */
export interface DelayingProxy {
  host: string;
  port: number;
  /** Open connections of clients. */
  readonly connections: number;
  setDelay(oneWayDelayMs: number): void;
  /** Bytes per second in each direction, all connections together; undefined for no limit. */
  rateLimit(bytesPerSecond: number | undefined): void;
  /** Resets all connections on both sides, as a link that goes down for good. */
  cut(): void;
  /**
   * Loses everything in silence and keeps the sockets open. Connections that exist or begin meanwhile stay dead when
   * it is turned off, as with a firewall that has forgotten them.
   */
  blackhole(on: boolean): void;
  /** Holds everything back, and delivers it once turned off. */
  stall(on: boolean): void;
  /** Refuses new connections. Resolves when that is the case, or when it no longer is. */
  refuse(on: boolean): Promise<void>;
  stop(): Promise<void>;
}

export interface DelayingProxyOptions {
  target: { host: string; port: number };
  oneWayDelayMs: number;
}

const HOST = "127.0.0.1";
/** SYN, SYN-ACK, ACK. */
const TRIPS_TO_CONNECT = 3;

export async function startDelayingProxy(options: DelayingProxyOptions): Promise<DelayingProxy> {
  const proxy = new TcpProxy(options);
  await proxy.refuse(false);
  return proxy;
}

class TcpProxy implements DelayingProxy {
  readonly host = HOST;
  port = 0;
  readonly #target: { host: string; port: number };
  readonly #listener: Server;
  readonly #connections = new Set<Connection>();
  readonly #links: Links;
  #blackholed = false;

  constructor({ target, oneWayDelayMs }: DelayingProxyOptions) {
    this.#target = target;
    const link: LinkState = { oneWayDelayMs, stalled: false, bytesPerSecond: undefined, freeAt: 0 };
    this.#links = { up: { ...link }, down: { ...link } };
    this.#listener = createServer({ allowHalfOpen: true, noDelay: true }, (client) => this.#accept(client));
  }

  get connections(): number {
    return this.#connections.size;
  }

  setDelay(oneWayDelayMs: number): void {
    for (const link of Object.values(this.#links)) link.oneWayDelayMs = oneWayDelayMs;
  }

  rateLimit(bytesPerSecond: number | undefined): void {
    for (const link of Object.values(this.#links)) link.bytesPerSecond = bytesPerSecond;
  }

  cut(): void {
    for (const connection of this.#connections) connection.reset();
  }

  blackhole(on: boolean): void {
    this.#blackholed = on;
    if (on) for (const connection of this.#connections) connection.lose();
  }

  stall(on: boolean): void {
    for (const link of Object.values(this.#links)) link.stalled = on;
    for (const connection of this.#connections) connection.update();
  }

  async refuse(on: boolean): Promise<void> {
    if (on !== this.#listener.listening) return;
    if (on) {
      // The port is closed at once; what the callback would wait for is the end of all connections.
      this.#listener.close();
      return;
    }
    this.#listener.listen(this.port, HOST);
    await once(this.#listener, "listening");
    this.port = (this.#listener.address() as AddressInfo).port;
  }

  async stop(): Promise<void> {
    await this.refuse(true);
    this.cut();
  }

  #accept(client: Socket): void {
    const connection = new Connection(client, this.#links, this.#target, () => this.#connections.delete(connection));
    this.#connections.add(connection);
    if (this.#blackholed) connection.lose();
    else connection.open();
  }
}

interface Links {
  up: LinkState;
  down: LinkState;
}

class Connection {
  readonly #client: Socket;
  readonly #links: Links;
  readonly #target: { host: string; port: number };
  #opening: NodeJS.Timeout | undefined;
  #server: Socket | undefined;
  #pipes: DelayedPipe[] = [];
  #lost = false;

  constructor(client: Socket, links: Links, target: { host: string; port: number }, onClose: () => void) {
    this.#client = client;
    this.#links = links;
    this.#target = target;
    client.on("error", () => {});
    client.on("close", (failed) => {
      clearTimeout(this.#opening);
      // A server does not learn over a dead link that its client is gone.
      if (!this.#lost && failed) this.#server?.resetAndDestroy();
      onClose();
    });
  }

  open(): void {
    const delay = this.#links.up.oneWayDelayMs * TRIPS_TO_CONNECT;
    if (delay === 0) this.#connectOn();
    else this.#opening = setTimeout(() => this.#connectOn(), delay);
  }

  reset(): void {
    this.#client.resetAndDestroy();
    this.#server?.resetAndDestroy();
  }

  lose(): void {
    this.#lost = true;
    clearTimeout(this.#opening);
    for (const pipe of this.#pipes) pipe.discard();
    this.#client.resume();
  }

  update(): void {
    for (const pipe of this.#pipes) pipe.update();
  }

  #connectOn(): void {
    const server = connect({ ...this.#target, allowHalfOpen: true, noDelay: true });
    this.#server = server;
    server.on("error", () => this.#client.resetAndDestroy());
    server.on("close", (failed) => {
      if (failed && !this.#lost) this.#client.resetAndDestroy();
    });
    // What the client has said by now was on its way while the connection came about.
    const early: Buffer | null = this.#client.read();
    if (early !== null) server.write(early);
    this.#pipes = [
      new DelayedPipe(this.#client, server, this.#links.up),
      new DelayedPipe(server, this.#client, this.#links.down),
    ];
  }
}

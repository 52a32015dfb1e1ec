import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";

/** git's own HTTP service (git http-backend) on loopback, with basic authentication where it is asked for. */
export class GitHttpServer {
  readonly #server: Server;
  readonly requests: string[] = [];
  /** Runs before an authorized request is answered; the test looks at the world from in here. */
  onAuthorized: (request: IncomingMessage) => Promise<void> = async () => {};
  /** Answers a request itself when it returns true. */
  intercept: (request: IncomingMessage, response: ServerResponse) => boolean = () => false;

  constructor(root: string, credentials?: { username: string; password: string }) {
    const backend = join(execFileSync("git", ["--exec-path"], { encoding: "utf8" }).trim(), "git-http-backend");
    const expected =
      credentials && `Basic ${Buffer.from(`${credentials.username}:${credentials.password}`).toString("base64")}`;
    this.#server = createServer(async (request, response) => {
      this.requests.push(`${request.method} ${request.url}`);
      if (this.intercept(request, response)) return;
      if (expected && request.headers.authorization !== expected) {
        response.writeHead(401, { "www-authenticate": 'Basic realm="test"' }).end("authentication required");
        return;
      }
      await this.onAuthorized(request);
      this.#serve(backend, root, request, response);
    });
  }

  async listen(): Promise<number> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    return (this.#server.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }

  #serve(backend: string, root: string, request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? "/", "http://localhost");
    const child = spawn(backend, [], {
      env: {
        PATH: process.env.PATH,
        GIT_PROJECT_ROOT: root,
        GIT_HTTP_EXPORT_ALL: "1",
        GIT_PROTOCOL: String(request.headers["git-protocol"] ?? ""),
        PATH_INFO: decodeURIComponent(url.pathname),
        QUERY_STRING: url.search.slice(1),
        REQUEST_METHOD: request.method,
        CONTENT_TYPE: request.headers["content-type"] ?? "",
        HTTP_CONTENT_ENCODING: String(request.headers["content-encoding"] ?? ""),
        REMOTE_USER: "somebody",
        // The repositories of a test may belong to somebody else than the tests run as.
        GIT_CONFIG_COUNT: "1",
        GIT_CONFIG_KEY_0: "safe.directory",
        GIT_CONFIG_VALUE_0: "*",
      },
      stdio: ["pipe", "pipe", "ignore"],
    });
    child.stdin.on("error", () => {});
    request.pipe(child.stdin);
    let head: Buffer | undefined = Buffer.alloc(0);
    child.stdout.on("data", (chunk: Buffer) => {
      if (!head) return void response.write(chunk);
      head = Buffer.concat([head, chunk]);
      const end = head.indexOf("\r\n\r\n");
      if (end < 0) return;
      for (const line of head.toString("latin1", 0, end).split("\r\n")) {
        const [name = "", value = ""] = line.split(": ");
        if (name === "Status") response.statusCode = Number.parseInt(value, 10);
        else response.setHeader(name, value);
      }
      response.write(head.subarray(end + 4));
      head = undefined;
    });
    child.stdout.on("end", () => response.end());
  }
}

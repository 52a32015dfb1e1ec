import type { CommandRuntimeLifecycleResponse } from "../contract/index.ts";
import { type ConnectionHandler, WireConnection } from "../wire/connection.ts";
import { RuntimeError } from "../wire/errors.ts";
import { FrameType, type MarkFrameType, StreamId, violation } from "../wire/frame.ts";
import { type AgentFrame, CLIENT_SIDE, type WireNeed, type WireResponse } from "../wire/from-agent.ts";
import type { WireRequest } from "../wire/from-client.ts";
import type { RuntimeContext } from "./context.ts";
import { dial } from "./dial.ts";
import { type Supplier, Upload } from "./upload.ts";

/** How often an operation whose link was lost is asked again; all of them may be repeated safely. */
const ATTEMPTS = 3;

/**
 * Performs one operation of the agent.
 * @param suppliers what this side can give when the agent needs it
 * @throws RuntimeError what the agent, the broker or a supplier reports
 */
export async function call(
  context: RuntimeContext,
  request: WireRequest,
  suppliers: Suppliers = {},
): Promise<WireResponse> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await callOnce(context, request, suppliers);
    } catch (error) {
      if (!(error instanceof RuntimeError) || error.code !== "connection-lost" || attempt >= ATTEMPTS) throw error;
    }
  }
}

export type Suppliers = { [What in WireNeed["what"]]?: Supplier<Extract<WireNeed, { what: What }>> };

/** The same for operations that answer with a message of the contract. */
export async function callLifecycle(
  context: RuntimeContext,
  request: WireRequest,
  suppliers: Suppliers = {},
): Promise<CommandRuntimeLifecycleResponse> {
  const response = await call(context, request, suppliers);
  if (response.kind !== "lifecycle") throw violation(`a ${response.kind} response answers ${request.op}`);
  return response.response;
}

async function callOnce(context: RuntimeContext, request: WireRequest, suppliers: Suppliers): Promise<WireResponse> {
  const client = new CallClient(context, suppliers);
  let connection: WireConnection | undefined;
  const { socket, early } = await dial(
    { type: "dial", options: context.rawOptions, caller: context.caller },
    (opened) => {
      connection = new WireConnection(opened, CLIENT_SIDE, client);
      connection.sendJson(FrameType.Request, request);
    },
    context.progress,
  );
  client.connection = connection;
  connection!.start(early);
  try {
    return await client.response;
  } finally {
    socket.destroy();
  }
}

class CallClient implements ConnectionHandler<AgentFrame> {
  connection: WireConnection | undefined;
  readonly response: Promise<WireResponse>;
  readonly #context: RuntimeContext;
  readonly #suppliers: Suppliers;
  #upload: Upload | undefined;
  /** What went wrong on this side; the agent is told, and answers when it has undone what it began. */
  #failure: RuntimeError | undefined;
  #resolve: (response: WireResponse) => void = () => {};
  #reject: (error: RuntimeError) => void = () => {};

  constructor(context: RuntimeContext, suppliers: Suppliers) {
    this.#context = context;
    this.#suppliers = suppliers;
    this.response = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    // A failed dial leaves it unobserved.
    this.response.catch(() => {});
  }

  onJson(frame: AgentFrame): void {
    switch (frame.type) {
      case FrameType.Response:
        if (frame.value.kind === "error") this.#reject(this.#failure ?? RuntimeError.fromData(frame.value.error));
        else this.#resolve(frame.value);
        return;
      case FrameType.Progress:
        this.#context.progress(frame.value.text);
        return;
      case FrameType.Need:
        this.#supply(frame.value);
        return;
      default:
        throw violation(`a ${FrameType[frame.type]} frame came in answer to a request`);
    }
  }

  onData(): void {
    throw violation("data came in answer to a request");
  }

  onMark(type: MarkFrameType, stream: StreamId, offset: number): void {
    if (stream !== StreamId.Upload || this.#upload === undefined)
      throw violation(`${FrameType[type]} came for stream ${StreamId[stream]}`);
    this.#upload.onMark(type, offset);
  }

  onEnd(): void {
    this.onClose(undefined);
  }

  onClose(error: RuntimeError | undefined): void {
    this.#upload?.close();
    this.#reject(
      this.#failure ??
        error ??
        new RuntimeError("connection-lost", "The connection to the build host was lost", "Try again"),
    );
  }

  #supply(need: WireNeed): void {
    const upload = new Upload(this.connection!);
    this.#upload = upload;
    const run = need.what === "helper" ? this.#suppliers.helper?.(need) : this.#suppliers.source?.(need);
    if (run === undefined) throw violation(`the agent needs a ${need.what} for an operation that has none`);
    upload.run(run).catch((error) => {
      this.#failure = RuntimeError.from(error);
    });
  }
}

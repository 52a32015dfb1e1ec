import { randomBytes } from "node:crypto";
import type { Carrier, CommandChannel } from "../ssh/index.ts";
import { authLinkPath } from "../wire/agent-link.ts";
import { RuntimeError } from "../wire/errors.ts";
import { shellWord } from "../wire/shell-word.ts";
import type { AgentAddress } from "./deploy.ts";
import { runAfterSession } from "./session.ts";

/**
 * The forwarded ssh agent of a connection: a session on the host has its socket, at a path that only this connection
 * knows, and a link with a path that stays leads there while the session lasts. The newest connection has the link.
 */

/** Reads and does nothing until the session ends. */
const UNTIL_END = "while read -r paseo_line; do :; done";

/** Why a session has no agent although there is one here. */
export const NOT_FORWARDED = "the server does not forward it (AllowAgentForwarding)";

/** What a session says once the link leads to its agent, and when it has none. */
export interface LinkAnswers {
  linked: string;
  absent: string;
}

export function linkAnswers(): LinkAnswers {
  const mark = `@paseo-${randomBytes(12).toString("hex")}@`;
  return { linked: `${mark} linked`, absent: `${mark} absent` };
}

/**
 * Text for `/bin/sh` that has the link while a command runs, if this session has an agent, and runs it in any case.
 * Everything is in a function, so that the shell has read all of its input before the command reads what follows.
 * @param command one line of a shell's script
 */
export function whileLinked(socket: string, { linked, absent }: LinkAnswers, command: string): string {
  return `paseo_main() {
paseo_link=${shellWord(authLinkPath(socket))}
paseo_socket=\${SSH_AUTH_SOCK:-}
if [ -n "$paseo_socket" ] && ln -sf "$paseo_socket" "$paseo_link.$$" && mv -f "$paseo_link.$$" "$paseo_link"; then
  printf '\\n%s\\n' ${shellWord(linked)}
else
  printf '\\n%s\\n' ${shellWord(absent)}
fi
${command}
if [ -n "$paseo_socket" ] && [ "$(readlink "$paseo_link")" = "$paseo_socket" ]; then rm -f "$paseo_link"; fi
exit
}
paseo_main
`;
}

/** The session that holds the link, where streams to the agent need no session. */
export class AuthLink {
  readonly #carrier: Carrier;
  readonly #deadlineMs: number;
  #held: Promise<string | undefined> | undefined;
  #channel: CommandChannel | undefined;

  /** @param deadlineMs how long the session's answer may take */
  constructor(carrier: Carrier, deadlineMs: number) {
    this.#carrier = carrier;
    this.#deadlineMs = deadlineMs;
  }

  /**
   * Opens the session when there is none.
   * @returns why the link does not lead to an agent; undefined when it does
   * @throws RuntimeError connection-lost
   */
  hold(address: AgentAddress): Promise<string | undefined> {
    this.#held ??= this.#open(address);
    return this.#held;
  }

  close(): void {
    this.#held = undefined;
    this.#channel?.close();
  }

  async #open({ socket, sessionEnded }: AgentAddress): Promise<string | undefined> {
    const answers = linkAnswers();
    try {
      await sessionEnded;
      const channel = await runAfterSession(this.#carrier, "/bin/sh", { forwardAgent: true });
      this.#channel = channel;
      channel.stderr.resume();
      channel.stdin.write(whileLinked(socket, answers, UNTIL_END));
      const problem = await this.#answer(channel, answers);
      if (problem !== undefined) channel.close();
      // Somebody on the host may end it, and the next who opens a stream gets another one.
      else void channel.exit.then(() => this.#channel === channel && this.close());
      return problem;
    } catch (error) {
      const failure = RuntimeError.from(error);
      if (failure.code === "connection-lost") throw failure;
      return failure.code === "session-refused"
        ? "the server has no session left for it (MaxSessions)"
        : failure.message;
    }
  }

  #answer({ stdout }: CommandChannel, { linked, absent }: LinkAnswers): Promise<string | undefined> {
    return new Promise((resolve) => {
      let text = "";
      const settle = (problem: string | undefined) => {
        clearTimeout(timer);
        resolve(problem);
      };
      const timer = setTimeout(() => settle("its session does not answer"), this.#deadlineMs);
      stdout.once("close", () => settle("its session has ended"));
      stdout.on("data", (chunk: Buffer) => {
        text = (text + chunk.toString("latin1")).slice(-chunk.length - linked.length);
        if (text.includes(linked)) settle(undefined);
        else if (text.includes(absent)) settle(NOT_FORWARDED);
      });
    });
  }
}

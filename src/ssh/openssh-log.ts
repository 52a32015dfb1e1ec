import { oneLine } from "../wire/errors.ts";

const MAX_LINES = 100;
const MAX_CHARACTERS = 500;

/** Lines that say what was done, beside those that say what went wrong. */
const NOTICES = /^(?:Authenticated to |Warning: Permanently added |Killed by signal )/;

/** What ssh has said on its stderr at the level DEBUG1, as far as somebody may want to know. */
export class SshLog {
  /** Without debugging; the ssh programs of a jump and a ProxyCommand write here too. */
  readonly lines: string[] = [];
  /** The address that it is connected to. */
  address: string | undefined;
  /** Key that the server presented: type and fingerprint. */
  hostKey: string | undefined;
  /** The key, or else the method, that the server accepted. */
  login: string | undefined;
  /** What the server would still accept. */
  methods: string | undefined;
  /** Keys that were offered, in order. */
  readonly offered: string[] = [];
  /** Set when the connection serves others. */
  ready = false;

  /** The last thing that was said, since that is where a reason stands. */
  get lastLine(): string | undefined {
    return this.lines.at(-1);
  }

  add(line: string): void {
    const debugging = /^debug[1-3]: (.*)/.exec(line)?.[1];
    if (debugging === undefined) this.#say(line);
    else if (!this.ready) this.#note(debugging);
  }

  #say(line: string): void {
    const method = /^Authenticated to .* using "([^"]+)"/.exec(line)?.[1];
    if (method !== undefined) this.login ??= method;
    const text = oneLine(line).slice(0, MAX_CHARACTERS);
    // Frames of "@" and empty lines surround warnings.
    if (NOTICES.test(text) || /^@* *$/.test(text)) return;
    this.lines.push(text.replace(/^@ +(.*?) +@$/, "$1"));
    if (this.lines.length > MAX_LINES) this.lines.shift();
  }

  #note(text: string): void {
    const [, address] = /^Connecting to \S+ \[(\S+)\] port /.exec(text) ?? [];
    const [, hostKey] = /^Server host (?:key|certificate): (\S+ SHA256:[^\s,]+)/.exec(text) ?? [];
    const [, offered] = /^Offering public key: (.*)/.exec(text) ?? [];
    const [, accepted] = /^Server accepts key: (.*)/.exec(text) ?? [];
    const [, methods] = /^Authentications that can continue: (.*)/.exec(text) ?? [];
    if (address !== undefined) this.address = oneLine(address);
    if (hostKey !== undefined) this.hostKey ??= oneLine(hostKey);
    if (accepted !== undefined) this.login = oneLine(accepted);
    if (methods !== undefined) this.methods = oneLine(methods);
    if (offered !== undefined && this.offered.length < MAX_LINES) this.offered.push(oneLine(offered));
    if (text !== "Entering interactive session.") return;
    this.ready = true;
    // What was said so far is not why the connection will end.
    this.lines.length = 0;
  }
}

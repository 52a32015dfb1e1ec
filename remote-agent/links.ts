import { LinkWindow } from "../src/wire/send-window.ts";

/** The links that connections of this agent have named, each with the window that its streams share. */
export class Links {
  readonly #links = new Map<string, { window: LinkWindow; connections: number }>();

  /** @returns the window of this link, and what to call when the connection is gone */
  join(name: string): { window: LinkWindow; leave: () => void } {
    const link = this.#links.get(name) ?? { window: new LinkWindow(), connections: 0 };
    this.#links.set(name, link);
    link.connections += 1;
    const leave = () => {
      link.connections -= 1;
      if (link.connections === 0) this.#links.delete(name);
    };
    return { window: link.window, leave };
  }
}

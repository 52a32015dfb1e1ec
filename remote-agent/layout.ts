import { createHash } from "node:crypto";
import { dirname, join } from "node:path";

/** The folders below the runtime's root on this host (docs/architecture.md, "Layout on the build host"). */
export class Layout {
  readonly root: string;

  constructor(root: string) {
    this.root = root;
  }

  get agents(): string {
    return join(this.root, "agent");
  }
  get helpers(): string {
    return join(this.root, "helper");
  }
  /** Each node that was sent here has a folder by its hash (src/broker/receive-node-script.ts). */
  get nodes(): string {
    return join(this.root, "node");
  }
  get run(): string {
    return join(this.root, "run");
  }
  get workspaces(): string {
    return join(this.root, "workspaces");
  }
  get gitCache(): string {
    return join(this.root, "cache", "git");
  }
  get trash(): string {
    return join(this.root, "trash");
  }
  get logs(): string {
    return join(this.root, "logs");
  }

  /** @returns the folder of this node when it was sent here, else nothing */
  ownNode(executable: string): string[] {
    const folder = dirname(executable);
    return dirname(folder) === this.nodes ? [folder] : [];
  }

  /** The folder of one workspace. Only the hash of the whole id decides, so that no two ids ever share a folder. */
  workspace(workspaceId: string): string {
    const hash = createHash("sha256").update(workspaceId).digest("hex").slice(0, 16);
    const slug = workspaceId
      .toLowerCase()
      .replace(/[^a-z0-9]+/g, "-")
      .slice(0, 40)
      .replace(/^-+|-+$/g, "");
    return join(this.workspaces, slug === "" ? hash : `${slug}-${hash}`);
  }
}

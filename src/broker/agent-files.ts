import { readFileSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod/mini";

/** The agent as it was built: what goes to a build host. */

const ManifestSchema = z.object({
  build: z.string(),
  files: z.array(
    z.object({
      path: z.string(),
      sha256: z.string(),
      size: z.int(),
      mode: z.int(),
      platform: z.optional(z.string()),
    }),
  ),
});
export type AgentManifest = z.infer<typeof ManifestSchema>;

export class AgentFiles {
  readonly manifest: AgentManifest;
  readonly bootstrap: Buffer;
  readonly #folder: string;

  /** @param folder `dist/agent` */
  constructor(folder: string) {
    this.#folder = folder;
    this.manifest = ManifestSchema.parse(JSON.parse(readFileSync(join(folder, "manifest.json"), "utf8")));
    this.bootstrap = readFileSync(join(folder, "bootstrap.cjs"));
  }

  read(path: string): Buffer {
    if (!this.manifest.files.some((file) => file.path === path)) throw new Error(`no such agent file: ${path}`);
    return readFileSync(join(this.#folder, path));
  }
}

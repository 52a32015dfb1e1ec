import { createHash, randomBytes } from "node:crypto";
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  utimesSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { RuntimeError } from "../src/wire/errors.ts";
import type { HelperIdentity } from "../src/wire/from-client.ts";
import { shellWord } from "../src/wire/shell-word.ts";
import { writeFileAtomically } from "./store.ts";

/**
 * Helpers on this host, each in a folder named by its content. The folder comes first on the workload PATH and holds
 * one command, `paseo-workspace-helper`; a helper that is a node script gets a launcher of that name, which works
 * with an empty environment as well, where `#!/usr/bin/env node` would find nothing.
 */

const COMMAND = "paseo-workspace-helper";
/** A helper larger than this is not one, in bytes. */
const MAX_HELPER_BYTES = 512 * 1024 * 1024;

export class HelperStore {
  readonly #root: string;
  readonly #ready = new Set<string>();

  /** @param root the folder `helper` of this runtime's root */
  constructor(root: string) {
    this.#root = root;
  }

  /** Folders of the helpers that this agent has handed out. */
  inUse(): string[] {
    return [...this.#ready].map((sha256) => join(this.#root, sha256));
  }

  folder(helper: HelperIdentity): string {
    return join(this.#root, helper.sha256);
  }

  /** Whether this helper is here and can be run. */
  has(helper: HelperIdentity): boolean {
    if (this.#ready.has(helper.sha256) && existsSync(join(this.folder(helper), COMMAND))) return true;
    if (!this.#isWhole(helper)) return false;
    this.#writeLauncher(helper);
    return true;
  }

  /** Asked once in an agent's life: what was written last before a power failure may be there without its content. */
  #isWhole(helper: HelperIdentity): boolean {
    try {
      const content = readFileSync(join(this.folder(helper), helper.fileName));
      return createHash("sha256").update(content).digest("hex") === helper.sha256;
    } catch {
      return false;
    }
  }

  /**
   * Takes a helper's bytes and puts it in its place once they are all there and are what they should be.
   * @throws RuntimeError deploy-failed
   */
  async receive(helper: HelperIdentity, bytes: Readable): Promise<void> {
    if (helper.size > MAX_HELPER_BYTES) throw failed("it is too large");
    try {
      await this.#take(helper, bytes);
    } catch (error) {
      // The disk is full, or the folder cannot be made.
      if ((error as NodeJS.ErrnoException).syscall === undefined) throw error;
      throw failed((error as Error).message);
    }
    this.#writeLauncher(helper);
  }

  async #take(helper: HelperIdentity, bytes: Readable): Promise<void> {
    const incoming = join(this.#root, `.incoming-${randomBytes(8).toString("hex")}`);
    mkdirSync(incoming, { recursive: true, mode: 0o700 });
    try {
      const hash = createHash("sha256");
      const fd = openSync(join(incoming, helper.fileName), "wx", 0o700);
      try {
        let size = 0;
        for await (const chunk of bytes as AsyncIterable<Buffer>) {
          size += chunk.length;
          if (size > helper.size) throw failed("more bytes came than announced");
          hash.update(chunk);
          for (let at = 0; at < chunk.length; ) at += writeSync(fd, chunk, at);
        }
      } finally {
        closeSync(fd);
      }
      if (hash.digest("hex") !== helper.sha256) throw failed("its checksum is wrong");
      this.#putInPlace(helper, incoming);
    } finally {
      rmSync(incoming, { recursive: true, force: true });
    }
  }

  #putInPlace(helper: HelperIdentity, incoming: string): void {
    const folder = this.folder(helper);
    // Somebody else has put the same content there meanwhile.
    if (this.#isWhole(helper)) return;
    // What is damaged is moved away, never changed: it may be running.
    if (existsSync(folder)) renameSync(folder, `${folder}.damaged-${randomBytes(4).toString("hex")}`);
    renameSync(incoming, folder);
  }

  #writeLauncher(helper: HelperIdentity): void {
    if (helper.interpreter === "node") {
      const script = join(this.folder(helper), helper.fileName);
      const launcher = `#!/bin/sh\nexec ${shellWord(process.execPath)} ${shellWord(script)} "$@"\n`;
      const path = join(this.folder(helper), COMMAND);
      if (!existsSync(path) || readFileSync(path, "utf8") !== launcher) {
        writeFileAtomically(path, launcher, { durable: false, mode: 0o700 });
      }
    }
    // Its age says how long it has been out of use (collect.ts).
    utimesSync(this.folder(helper), new Date(), new Date());
    this.#ready.add(helper.sha256);
  }
}

function failed(reason: string): RuntimeError {
  return new RuntimeError(
    "deploy-failed",
    `The workspace helper could not be put on the build host (${reason})`,
    "Try again",
  );
}

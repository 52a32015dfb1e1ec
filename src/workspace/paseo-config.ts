import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { RuntimeError } from "../wire/errors.ts";

const MAX_PASEO_CONFIG_BYTES = 1024 * 1024;

/**
 * The text of `paseo.json` in a folder, for a workspace that has none of its own.
 * @returns undefined when there is no such regular file or it cannot be read
 * @throws RuntimeError source-unsupported when it is larger than 1 MiB
 */
export async function readPaseoConfig(folder: string): Promise<string | undefined> {
  const path = join(folder, "paseo.json");
  // Opening a named pipe would otherwise wait for its writer.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK).catch(() => undefined);
  if (!file) return undefined;
  try {
    const stats = await file.stat();
    if (!stats.isFile()) return undefined;
    if (stats.size > MAX_PASEO_CONFIG_BYTES) {
      throw new RuntimeError("source-unsupported", `${path} is larger than ${MAX_PASEO_CONFIG_BYTES} bytes`);
    }
    const bytes = Buffer.alloc(MAX_PASEO_CONFIG_BYTES);
    let size = 0;
    while (size < bytes.length) {
      const { bytesRead } = await file.read(bytes, size, bytes.length - size, size);
      if (bytesRead === 0) break;
      size += bytesRead;
    }
    return bytes.toString("utf8", 0, size);
  } finally {
    await file.close();
  }
}

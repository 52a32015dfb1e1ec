import * as fs from "node:fs";

/** What kind of host this is, as far as compiled code depends on it. Part of the bootstrap, so it must run on any node. */
export interface Platform {
  /** `${process.platform}-${process.arch}`, as the files of the agent name it. */
  name: string;
  libc: "glibc" | "musl" | "system";
}

export function thisPlatform(): Platform {
  return { name: `${process.platform}-${process.arch}`, libc: detectLibc() };
}

/** The files of an agent that this host can use: a module that was built for glibc crashes node on musl. */
export function filesFor<File extends { platform?: string | undefined }>(files: File[], platform: Platform): File[] {
  return files.filter(
    (file) => file.platform === undefined || (file.platform === platform.name && platform.libc !== "musl"),
  );
}

/**
 * The folder of one build of the agent, by the name of the build. A home may be shared by hosts of several kinds, and
 * they put different files into it.
 */
export function agentFolderName(build: string, platform: Platform): string {
  return `${build}-${platform.name}${platform.libc === "musl" ? "-musl" : ""}`;
}

/** A dynamically linked process has its C library's loader mapped; ours is one, since it loads modules. */
function detectLibc(): Platform["libc"] {
  if (process.platform !== "linux") return "system";
  try {
    return isMusl(fs.readFileSync("/proc/self/maps", "latin1")) ? "musl" : "glibc";
  } catch (_error) {
    return "glibc";
  }
}

/** @param maps content of /proc/self/maps (proc(5)) */
export function isMusl(maps: string): boolean {
  return maps.indexOf("/ld-musl-") >= 0;
}

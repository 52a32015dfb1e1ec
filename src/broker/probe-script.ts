import { shellWord } from "../wire/shell-word.ts";
import { RECEIVE_NODE } from "./receive-node-script.ts";

/**
 * The text that finds node on the build host. It goes to the standard input of `/bin/sh`, so the account's login
 * shell only has to understand that one word, and whatever its start-up files print is told apart by the mark.
 */

/** Seconds that a login shell may take to say where node is. */
const LOGIN_SHELL_SECONDS = 10;
/** Seconds that a program called node may take to say its version: long for a network disk, short for one that hangs. */
const VERSION_SECONDS = 4;

/**
 * Reads a length (u32, big endian) and that many bytes of program from standard input and runs it, with `rest` holding
 * what came behind. It has no single quote, and runs on any node.
 */
const LOADER = [
  "var b=Buffer.alloc(0);",
  "function f(d){",
  "b=Buffer.concat([b,d]);",
  "if(b.length<4)return;",
  "var n=b.readUInt32BE(0);",
  "if(b.length<4+n)return;",
  'process.stdin.removeListener("data",f);',
  "process.stdin.pause();",
  'new Function("require","rest",b.toString("utf8",4,4+n))(require,b.slice(4+n));',
  "}",
  'process.stdin.on("data",f);',
].join("");

/**
 * Where version managers and packages put node, in the order in which they are tried. `*` stands for a version; of
 * several in one place the newest is tried first.
 */
const USUAL_PLACES = [
  "~/.nvm/versions/node/*/bin/node",
  "~/.config/nvm/versions/node/*/bin/node",
  "~/.local/share/fnm/node-versions/*/installation/bin/node",
  "~/.fnm/node-versions/*/installation/bin/node",
  "~/Library/Application Support/fnm/node-versions/*/installation/bin/node",
  "~/.volta/tools/image/node/*/bin/node",
  "~/.asdf/installs/nodejs/*/bin/node",
  "~/.local/share/mise/installs/node/*/bin/node",
  "~/.nodenv/versions/*/bin/node",
  "~/n/bin/node",
  "~/.local/bin/node",
  "~/.nix-profile/bin/node",
  "~/.linuxbrew/bin/node",
  "/usr/local/bin/node",
  "/opt/homebrew/bin/node",
  "/opt/homebrew/opt/node@*/bin/node",
  "/usr/local/opt/node@*/bin/node",
  "/home/linuxbrew/.linuxbrew/bin/node",
  "/home/linuxbrew/.linuxbrew/opt/node@*/bin/node",
  "/opt/local/bin/node",
  "/run/current-system/sw/bin/node",
  "/usr/bin/node",
  "/snap/bin/node",
  "/usr/local/n/versions/node/*/bin/node",
  "/usr/local/lib/nodejs/*/bin/node",
  "/opt/node*/bin/node",
];

/** A start-up file that reads a line from its standard input takes one of these, and not one of ours. */
const LINES_TO_LOSE = "\n".repeat(8);

export interface ProbeOptions {
  /** Unguessable word that begins each line of ours. */
  mark: string;
  /** Path of node on the host, when the options name one; then nothing else is tried. */
  node?: string | undefined;
  /** Root folder on the host that may receive a node from here, when there is none. */
  nodeRoot: string | undefined;
}

/**
 * Prints `{"type":"node"}` and becomes node with LOADER, or prints what it knows about the host as `no-node`. In the
 * latter case, with a `nodeRoot`, it goes on with RECEIVE_NODE.
 *
 * It runs in whatever sh a host has (dash, bash 3.2 to 5, busybox, ksh; zsh where a start-up file replaces the login
 * shell), with whatever a start-up file may have exported to it: functions, options, a PATH without the system's folders.
 */
export function probeScript({ mark, node, nodeRoot }: ProbeOptions): string {
  // Everything is in a function that runs last: the shell has then read all of its input, and what follows is node's.
  return `${LINES_TO_LOSE}paseo_main() {
set +e; set +u; set +f
[ -n "$ZSH_VERSION" ] && emulate sh
unset -f command printf read kill wait echo sleep sort tr uname ldd head chmod mkdir mv rm node
paseo_good=; paseo_old=0; paseo_other=false; paseo_tried='|'
paseo_first=$(command -v node 2>/dev/null)
PATH="\${PATH:+$PATH:}/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"

# SECONDS COMMAND...: what it prints, until it ends or the time is over. It is read from a pipe that nobody waits for,
# since what a start-up file leaves behind, or hangs in, holds the other end for as long as it likes. By its empty lines
# the timer notices that nobody reads them any more.
paseo_within() {
  paseo_seconds=$1; shift
  {
    "$@" & paseo_child=$!
    {
      trap '' PIPE; paseo_second=0
      while [ "$paseo_second" -lt "$paseo_seconds" ]; do
        sleep 1; echo || break; paseo_second=$((paseo_second + 1))
      done
      echo; echo @paseo-end@; kill -9 "$paseo_child"
    } 2>/dev/null & paseo_timer=$!
    wait "$paseo_child"; echo; echo @paseo-end@; kill "$paseo_timer" 2>/dev/null
  } </dev/null | while IFS= read -r paseo_line && [ "$paseo_line" != @paseo-end@ ]; do printf '%s\n' "$paseo_line"; done
}

paseo_try() {
  [ -n "$paseo_good" ] && return
  [ -f "$1" ] && [ -x "$1" ] || return
  case $paseo_tried in *"|$1|"*) return ;; esac
  paseo_tried="$paseo_tried$1|"
  paseo_major=$(paseo_within ${VERSION_SECONDS} "$1" -p 'process.versions.node.split(".")[0]' 2>/dev/null)
  case $paseo_major in *[!0-9]*|''|????*) paseo_other=true; return ;; esac
  if [ "$paseo_major" -ge 18 ]; then paseo_good=$1
  elif [ "$paseo_major" -gt "$paseo_old" ]; then paseo_old=$paseo_major; fi
}

# PREFIX PATH...: lines of version and path, the newest first. The version is what stands in the path behind the prefix.
paseo_sorted() {
  paseo_prefix=$1; shift
  for paseo_path do
    [ -x "$paseo_path" ] || continue
    paseo_version=\${paseo_path#"$paseo_prefix"}; paseo_version=\${paseo_version%%/*}
    paseo_version=\${paseo_version#"\${paseo_version%%[0-9]*}"}
    printf '%s %s\\n' "\${paseo_version%%[!0-9.]*}" "$paseo_path"
  done | sort -t. -k1,1nr -k2,2nr -k3,3nr
}

paseo_newest() {
  [ -n "$paseo_good" ] && return
  paseo_list=$(paseo_sorted "$@")
  IFS='
'
  set -f
  for paseo_entry in $paseo_list; do paseo_try "\${paseo_entry#* }"; done
  set +f
  IFS=' 	
'
}

${node === undefined ? search() : `paseo_try ${hostPath(node)}`}
${nodeRoot === undefined ? "" : RECEIVE_NODE}
if [ -z "$paseo_good" ]; then
  paseo_libc=
  case $(ldd --version 2>&1) in
    *musl*) paseo_libc=musl ;;
    *GLIBC*|*"GNU libc"*) paseo_libc=glibc ;;
    *) for paseo_path in /lib/ld-musl-*; do [ -e "$paseo_path" ] && paseo_libc=musl; done ;;
  esac
  paseo_kind="\\"system\\":\\"$(uname -s | tr -cd A-Za-z0-9_)\\",\\"machine\\":\\"$(uname -m | tr -cd A-Za-z0-9_)\\",\\"libc\\":\\"$paseo_libc\\""
  printf '\\n%s {"type":"no-node","old":%s,"other":%s,%s}\\n' ${mark} "$paseo_old" "$paseo_other" "$paseo_kind"
  ${nodeRoot === undefined ? "" : `paseo_receive ${mark} ${hostPath(nodeRoot)}`}
fi
if [ -n "$paseo_good" ]; then
  printf '\\n%s {"type":"node"}\\n' ${mark}
  exec "$paseo_good" -e '${LOADER}'
fi
}
paseo_main
`;
}

/** No `case` inside `$( )`: bash 3.2, the sh of macOS, takes its `)` for the end. */
function search(): string {
  return `paseo_try "$paseo_first"
if [ -z "$paseo_good" ]; then
  case $SHELL in *csh) set -- -c ;; *) set -- -l -c ;; esac
  paseo_answer=$(
    paseo_within ${LOGIN_SHELL_SECONDS} "\${SHELL:-/bin/sh}" "$@" '/bin/sh -c "echo; echo @paseo@; command -v node; echo @paseo-end@"' 2>/dev/null | {
      paseo_seen=
      while IFS= read -r paseo_line; do
        if [ -n "$paseo_seen" ] && [ -n "$paseo_line" ]; then printf '%s\\n' "$paseo_line"; break; fi
        if [ "$paseo_line" = @paseo@ ]; then paseo_seen=1; fi
      done
    }
  )
  paseo_try "$paseo_answer"
fi
${USUAL_PLACES.map(tryPlace).join("\n")}`;
}

function tryPlace(place: string): string {
  const [prefix, suffix] = place.split("*");
  if (suffix === undefined) return `paseo_try ${hostPath(place)}`;
  return `paseo_newest ${hostPath(prefix!)} ${hostPath(prefix!)}*${suffix}`;
}

/** A path of the options as one word of sh; `~` is the account's home. */
function hostPath(path: string): string {
  return /^~(?=\/|$)/.test(path) ? `"$HOME"${shellWord(path.slice(1))}` : shellWord(path);
}

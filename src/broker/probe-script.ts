/**
 * The text that finds node on the build host. It goes to the standard input of `/bin/sh`, so the account's login
 * shell only has to understand that one word, and whatever its start-up files print is told apart by the mark.
 */

/** Seconds that a login shell may take to say where node is. */
const LOGIN_SHELL_SECONDS = 10;

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

/** Where version managers and packages put node, in the order in which they are tried; `*` may match several. */
const USUAL_PLACES = [
  '"$HOME"/.nvm/versions/node/*/bin/node',
  '"$HOME"/.local/share/fnm/node-versions/*/installation/bin/node',
  '"$HOME"/.fnm/node-versions/*/installation/bin/node',
  '"$HOME"/.volta/tools/image/node/*/bin/node',
  '"$HOME"/.asdf/installs/nodejs/*/bin/node',
  '"$HOME"/.local/share/mise/installs/node/*/bin/node',
  '"$HOME"/.nodenv/versions/*/bin/node',
  '"$HOME"/n/bin/node',
  '"$HOME"/.local/bin/node',
  "/usr/local/bin/node",
  "/opt/homebrew/bin/node",
  "/usr/bin/node",
  "/snap/bin/node",
  "/usr/local/lib/nodejs/*/bin/node",
  "/opt/node*/bin/node",
];

/**
 * @param mark unguessable word that begins each line of ours
 * @param node path of node on the host, when the options name one; then nothing else is tried
 */
export function probeScript(mark: string, node: string | undefined): string {
  // Everything is in a function that runs last: the shell has then read all of its input, and what follows is node's.
  return `paseo_main() {
paseo_good=; paseo_old=
paseo_try() {
  [ -n "$paseo_good" ] && return
  [ -n "$1" ] && [ -x "$1" ] || return
  paseo_major=$("$1" -p 'process.versions.node.split(".")[0]' </dev/null 2>/dev/null) || return
  case $paseo_major in *[!0-9]*|'') return ;; esac
  if [ "$paseo_major" -ge 18 ]; then paseo_good=$1; else paseo_old=$1; fi
}
${node === undefined ? search() : named(node)}
if [ -n "$paseo_good" ]; then
  printf '\\n%s {"type":"node"}\\n' ${mark}
  exec "$paseo_good" -e '${LOADER}'
elif [ -n "$paseo_old" ]; then
  printf '\\n%s {"type":"no-node","old":true}\\n' ${mark}
else
  printf '\\n%s {"type":"no-node","old":false}\\n' ${mark}
fi
}
paseo_main
`;
}

function named(node: string): string {
  const path = node.startsWith("~/") ? `"$HOME"${shellWord(node.slice(1))}` : shellWord(node);
  return `paseo_try ${path}`;
}

/**
 * The answer of the login shell is read from a pipe that nobody waits for: what a start-up file leaves behind, or hangs
 * in, holds its other end for as long as it likes. The timer's empty lines end the timer once nobody reads them. And no
 * `case` inside `$( )`: bash 3.2, the sh of macOS, takes its `)` for the end.
 */
function search(): string {
  return `paseo_try "$(command -v node 2>/dev/null)"
if [ -z "$paseo_good" ]; then
  case $SHELL in *csh) set -- -c ;; *) set -- -l -c ;; esac
  paseo_answer=$(
    {
      "\${SHELL:-/bin/sh}" "$@" '/bin/sh -c "echo; echo @paseo@; command -v node; echo @paseo-end@"' &
      paseo_shell=$!
      {
        paseo_second=0
        while [ "$paseo_second" -lt ${LOGIN_SHELL_SECONDS} ]; do sleep 1; echo; paseo_second=$((paseo_second + 1)); done
        echo @paseo-end@; kill "$paseo_shell"
      } &
    } </dev/null 2>/dev/null | {
      paseo_seen=
      while read -r paseo_line && [ "$paseo_line" != @paseo-end@ ]; do
        if [ -n "$paseo_seen" ] && [ -n "$paseo_line" ]; then printf '%s\\n' "$paseo_line"; break; fi
        if [ "$paseo_line" = @paseo@ ]; then paseo_seen=1; fi
      done
    }
  )
  paseo_try "$paseo_answer"
fi
for paseo_candidate in ${USUAL_PLACES.join(" ")}; do
  paseo_try "$paseo_candidate"
done`;
}

/** One word of a POSIX shell, whatever is in it. */
export function shellWord(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

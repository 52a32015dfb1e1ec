/** Pattern lists as in ssh_config(5), "PATTERNS", which known_hosts files use as well: `*`, `?` and a leading `!`. */

/** @returns true when `text` matches the pattern; letter case counts */
export function matchesPattern(text: string, pattern: string): boolean {
  // Two positions instead of a regular expression: patterns come from files, and no pattern may take exponential time.
  let at = 0;
  let patternAt = 0;
  let star = -1;
  let retryAt = 0;
  while (at < text.length) {
    const wanted = pattern[patternAt];
    if (wanted === "*") {
      star = patternAt;
      patternAt += 1;
      retryAt = at;
    } else if (wanted === "?" || wanted === text[at]) {
      patternAt += 1;
      at += 1;
    } else if (star >= 0) {
      patternAt = star + 1;
      retryAt += 1;
      at = retryAt;
    } else {
      return false;
    }
  }
  while (pattern[patternAt] === "*") patternAt += 1;
  return patternAt === pattern.length;
}

/** @returns true when a pattern matches and no negated one does, in whatever order they stand */
export function matchesPatternList(text: string, patterns: readonly string[]): boolean {
  let matched = false;
  for (const pattern of patterns) {
    if (pattern.startsWith("!")) {
      if (matchesPattern(text, pattern.slice(1))) return false;
    } else if (matchesPattern(text, pattern)) {
      matched = true;
    }
  }
  return matched;
}

/** Characters that may differ for a suggestion to be of help. */
const MAX_DISTANCE = 3;

/** The candidate that a person most likely meant by `word`, if one is near; letter case does not count. */
export function nearest(word: string, candidates: readonly string[]): string | undefined {
  const given = word.toLowerCase();
  let best: string | undefined;
  let bestDistance = MAX_DISTANCE + 1;
  for (const candidate of candidates) {
    const distance = editDistance(given, candidate.toLowerCase());
    // A word of three letters is three changes away from every other.
    if (distance < bestDistance && distance <= candidate.length / 2) {
      best = candidate;
      bestDistance = distance;
    }
  }
  // "hostname" is far from "host" in letters, but not in meaning.
  return best ?? candidates.find((candidate) => given.startsWith(candidate.toLowerCase()));
}

/** Levenshtein distance, or something above MAX_DISTANCE. */
function editDistance(left: string, right: string): number {
  if (Math.abs(left.length - right.length) > MAX_DISTANCE) return MAX_DISTANCE + 1;
  let previous = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (let row = 1; row <= left.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= right.length; column += 1) {
      const substitution = previous[column - 1]! + (left[row - 1] === right[column - 1] ? 0 : 1);
      current.push(Math.min(substitution, previous[column]! + 1, current[column - 1]! + 1));
    }
    previous = current;
  }
  return previous[right.length]!;
}

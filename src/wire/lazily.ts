/**
 * A value that is made when it is first asked for. Building a schema costs a short-lived wrapper more than checking
 * with it, and a wrapper meets few of the messages that exist.
 */
export function lazily<T>(make: () => T): () => T {
  let made: { value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}

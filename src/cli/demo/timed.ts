export async function timed<Result>(action: () => Promise<Result>): Promise<{ result: Result; milliseconds: number }> {
  const start = performance.now();
  const result = await action();
  return { result, milliseconds: performance.now() - start };
}

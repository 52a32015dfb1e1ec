/**
 * Some tests have a long form, for a machine that has nothing else to do: `npm run chaos` and `npm run soak`. CI runs
 * the short one.
 */
export const LONG: boolean = process.env.TEST_FORM === "long";

/** @returns what this run's form asks for */
export function form<Value>(short: Value, long: Value): Value {
  return LONG ? long : short;
}

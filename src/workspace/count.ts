/** A number with its noun, for a progress text: "1 file", "1,240 files". */
export function count(number: number, one: string, many = `${one}s`): string {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

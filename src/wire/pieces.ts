import * as z from "zod/mini";

/** Pieces that several schemas of the wire protocol and the dial protocol have in common. */

export const text = (most: number) => z.string().check(z.maxLength(most));
export const name = (most: number) => z.string().check(z.minLength(1), z.maxLength(most));
export const count = () => z.int().check(z.nonnegative());

export const ErrorDataSchema = z.strictObject({ code: name(64), message: text(8192), remedy: text(8192) });

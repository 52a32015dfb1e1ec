import * as z from "zod/mini";
import { lazily } from "./lazily.ts";

/** Pieces that several messages of the wire protocol and the dial protocol have in common. */

export const text = (most: number) => z.string().check(z.maxLength(most));
export const name = (most: number) => z.string().check(z.minLength(1), z.maxLength(most));
export const count = () => z.int().check(z.nonnegative());

export const errorDataSchema = lazily(() =>
  z.strictObject({ code: name(64), message: text(8192), remedy: text(8192) }),
);
export const seqSchema = lazily(() => z.strictObject({ seq: count() }));

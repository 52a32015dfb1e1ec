import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { createCommandRuntimeMessageDecoder, encodeCommandRuntimeMessage } from "../../src/contract/index.ts";
import { schemaNamed } from "./support.ts";

interface Vector {
  schema: string;
  value: unknown;
  line: string;
}

describe.each(["vectors-v1.json", "vectors-own.json"])("%s", (file) => {
  const { vectors } = JSON.parse(readFileSync(new URL(file, import.meta.url), "utf8")) as { vectors: Vector[] };

  it.each(vectors.map((vector, index) => [index, vector.schema, vector] as const))("%i %s", (_index, name, vector) => {
    const schema = schemaNamed(name);
    expect(encodeCommandRuntimeMessage(schema, vector.value)).toBe(vector.line);

    const decoder = createCommandRuntimeMessageDecoder(schema);
    const messages = decoder.push(vector.line);
    decoder.finish();
    expect(messages).toHaveLength(1);
    expect(encodeCommandRuntimeMessage(schema, messages[0])).toBe(vector.line);
  });
});

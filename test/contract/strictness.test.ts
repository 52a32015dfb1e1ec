import { describe, expect, it } from "vitest";
import { encodeCommandRuntimeMessage, parseCommandRuntimeMessage } from "../../src/contract/index.ts";
import { SAMPLES } from "./samples.ts";
import { changedAt, failureOf, schemaNamed, setOwn, strictObjects } from "./support.ts";

const places = SAMPLES.flatMap(({ schema, value }, index) =>
  strictObjects(value).map((path) => [`${schema} ${index} at /${path.join("/")}`, { schema, value, path }] as const),
);

describe("an unknown key in any object that is not a map", () => {
  it.each(places)("is refused by name: %s", (_name, { schema, value, path }) => {
    for (const key of ["unknownV1Field", "root", "runtimeGeneration", "constructor", "toString", "__proto__", ""]) {
      for (const held of ["/private", undefined, { deep: [1] }]) {
        const changed = changedAt(value, path, (target) => setOwn(target, key, held));
        const failure = failureOf(() => parseCommandRuntimeMessage(schemaNamed(schema), changed), "request-invalid");
        const place = path
          .map((part) => (typeof part === "number" ? `[${part}]` : `.${part}`))
          .join("")
          .slice(1);
        expect(failure.message).toContain(`Unrecognized key: "${key}"${place === "" ? "" : ` at ${place}`}`);
        failureOf(() => encodeCommandRuntimeMessage(schemaNamed(schema), changed), "internal");
        expect(() => schemaNamed(schema).parse(changed)).toThrow(/unrecognized key: /i);
      }
    }
  });

  it("counts every object of every sample", () => {
    expect(places).toHaveLength(70);
  });
});

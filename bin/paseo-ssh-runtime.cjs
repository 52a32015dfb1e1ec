#!/usr/bin/env node
"use strict";

try {
  require("../dist/wrapper.cjs");
} catch (error) {
  // Only this file's own require means that nothing was built; the same error from inside the program is a bug in it.
  if (error?.code !== "MODULE_NOT_FOUND" || error.requireStack?.[0] !== __filename) throw error;
  process.stderr.write("paseo-ssh-runtime has not been built. Run `npm run build` in its folder. [usage]\n");
  process.exitCode = 1;
}

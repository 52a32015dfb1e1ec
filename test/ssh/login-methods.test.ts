import { expect, it } from "vitest";
import { targetFrom } from "./support.ts";

const DEFAULT = ["publickey", "keyboard-interactive", "password"];

it.each([
  [{}, DEFAULT],
  [{ preferredauthentications: ["gssapi-with-mic,hostbased,publickey,keyboard-interactive,password"] }, DEFAULT],
  [{ preferredauthentications: ["password,PublicKey"] }, ["password", "publickey"]],
  [{ preferredauthentications: ["gssapi-with-mic"] }, []],
  [{ passwordauthentication: ["no"], kbdinteractiveauthentication: ["no"] }, ["publickey"]],
  [{ challengeresponseauthentication: ["no"] }, ["publickey", "password"]],
  [{ kbdinteractiveauthentication: ["yes"], challengeresponseauthentication: ["no"] }, DEFAULT],
  // What `ssh -G` prints for a method that is on.
  [{ pubkeyauthentication: ["true"], passwordauthentication: ["yes"] }, DEFAULT],
  [{ pubkeyauthentication: ["host-bound"] }, DEFAULT],
  [{ pubkeyauthentication: ["false"] }, ["keyboard-interactive", "password"]],
])("ssh_config %j leaves %j", (config: Record<string, string[]>, methods) => {
  expect(targetFrom(config).preferredAuthentications).toEqual(methods);
});
